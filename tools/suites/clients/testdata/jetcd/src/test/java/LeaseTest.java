import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.Watch;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.lease.LeaseTimeToLiveResponse;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.support.CloseableClient;
import io.etcd.jetcd.watch.WatchEvent.EventType;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LeaseTest extends Store {
  private long grant(long seconds) throws Exception {
    return get(client.getLeaseClient().grant(seconds)).getID();
  }

  private long putWith(String key, long lease) throws Exception {
    PutOption option = PutOption.builder().withLeaseId(lease).build();
    return get(client.getKVClient().put(bytes(key), bytes(1), option)).getHeader().getRevision();
  }

  @Test
  void takesItsKeysAlong() throws Exception {
    long lease = grant(60);
    putWith("a", lease);
    putWith("b", lease);
    assertEquals(lease, get(client.getKVClient().get(bytes("a"))).getKvs().get(0).getLease());
    LeaseTimeToLiveResponse left = get(client.getLeaseClient().timeToLive(lease,
        LeaseOption.builder().withAttachedKeys().build()));
    assertEquals(List.of("a", "b"), left.getKeys().stream().map(Store::text).sorted().toList());
    assertEquals(60, left.getGrantedTTL());
    assertTrue(left.getTTL() <= 60 && left.getTTL() > 0);
    get(client.getLeaseClient().revoke(lease));
    assertNull(value("a"));
    assertNull(value("b"));
    assertEquals(-1, get(client.getLeaseClient().timeToLive(lease, LeaseOption.DEFAULT)).getTTL());
  }

  @Test
  void runsOut() throws Exception {
    long revision = putWith("k", grant(1));
    CountDownLatch deleted = new CountDownLatch(1);
    WatchOption option = WatchOption.builder().withRevision(revision).build();
    Watch.Watcher watcher = client.getWatchClient().watch(bytes("k"), option, response -> response.getEvents().stream()
        .filter(event -> event.getEventType() == EventType.DELETE).forEach(event -> deleted.countDown()));
    assertTrue(deleted.await(30, TimeUnit.SECONDS));
    assertNull(value("k"));
    watcher.close();
  }

  @Test
  void isRenewed() throws Exception {
    long lease = grant(60);
    assertEquals(60, get(client.getLeaseClient().keepAliveOnce(lease)).getTTL());
    CountDownLatch renewed = new CountDownLatch(1);
    CloseableClient renewal = client.getLeaseClient().keepAlive(lease, new StreamObserver<LeaseKeepAliveResponse>() {
      @Override
      public void onNext(LeaseKeepAliveResponse response) {
        renewed.countDown();
      }

      @Override
      public void onError(Throwable error) {}

      @Override
      public void onCompleted() {}
    });
    assertTrue(renewed.await(30, TimeUnit.SECONDS));
    renewal.close();
    get(client.getLeaseClient().revoke(lease));
    assertThrows(Exception.class, () -> get(client.getLeaseClient().keepAliveOnce(lease)));
  }

  @Test
  void mustExist() {
    Exception refused = assertThrows(Exception.class, () -> putWith("k", 12345));
    assertTrue(refused.getMessage().contains("lease not found"), refused.getMessage());
  }
}
