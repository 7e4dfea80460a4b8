import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.election.CampaignResponse;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Locks and elections, which etcd itself makes. */
class LockTest extends Store {
  private long grant() throws Exception {
    return get(client.getLeaseClient().grant(60)).getID();
  }

  private ByteSequence lock(String name) throws Exception {
    return get(client.getLockClient().lock(bytes(name), grant())).getKey();
  }

  @Test
  void aLockHasAKey() throws Exception {
    ByteSequence key = lock("l");
    for (int i = 0; i < 5; i++) {
      assertNotNull(value(text(key)));
    }
    get(client.getLockClient().unlock(key));
    assertNull(value(text(key)));
  }

  @Test
  void aLockHasOneHolder() throws Exception {
    ByteSequence first = lock("l");
    CompletableFuture<ByteSequence> second =
        client.getLockClient().lock(bytes("l"), grant()).thenApply(response -> response.getKey());
    for (int i = 0; i < 20; i++) {
      assertNotNull(value(text(first)));
    }
    assertFalse(second.isDone());
    get(client.getLockClient().unlock(first));
    ByteSequence key = get(second);
    assertNull(value(text(first)));
    assertNotNull(value(text(key)));
    get(client.getLockClient().unlock(key));
  }

  @Test
  void aLockEndsWithItsLease() throws Exception {
    long lease = grant();
    ByteSequence first = get(client.getLockClient().lock(bytes("l"), lease)).getKey();
    assertNotNull(value(text(first)));
    CompletableFuture<ByteSequence> second =
        client.getLockClient().lock(bytes("l"), grant()).thenApply(response -> response.getKey());
    get(client.getLeaseClient().revoke(lease));
    get(client.getLockClient().unlock(get(second)));
    assertNull(value(text(first)));
  }

  @Test
  void anElectionHasOneLeader() throws Exception {
    Election election = client.getElectionClient();
    LeaderKey first = get(election.campaign(bytes("e"), grant(), bytes("one"))).getLeader();
    assertEquals("one", text(get(election.leader(bytes("e"))).getKv().getValue()));
    assertEquals("one", value(text(first.getKey())));
    CompletableFuture<CampaignResponse> second = election.campaign(bytes("e"), grant(), bytes("two"));
    get(election.proclaim(first, bytes("one again")));
    assertEquals("one again", value(text(first.getKey())));
    assertEquals("one again", text(get(election.leader(bytes("e"))).getKv().getValue()));
    assertFalse(second.isDone());
    get(election.resign(first));
    assertNull(value(text(first.getKey())));
    LeaderKey leader = get(second).getLeader();
    assertEquals("two", value(text(leader.getKey())));
    get(election.resign(leader));
  }

  @Test
  void anElectionIsObserved() throws Exception {
    BlockingQueue<String> leaders = new LinkedBlockingQueue<>();
    client.getElectionClient().observe(bytes("e"), new Election.Listener() {
      @Override
      public void onNext(LeaderResponse response) {
        leaders.add(text(response.getKv().getValue()));
      }

      @Override
      public void onError(Throwable error) {}

      @Override
      public void onCompleted() {}
    });
    LeaderKey leader = get(client.getElectionClient().campaign(bytes("e"), grant(), bytes("one"))).getLeader();
    assertEquals("one", leaders.poll(30, TimeUnit.SECONDS));
    get(client.getElectionClient().proclaim(leader, bytes("two")));
    assertEquals("two", leaders.poll(30, TimeUnit.SECONDS));
    get(client.getElectionClient().resign(leader));
  }
}
