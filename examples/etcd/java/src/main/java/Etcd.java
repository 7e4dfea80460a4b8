import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.Watch.Watcher;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.support.CloseableClient;
import io.etcd.jetcd.support.Observers;
import io.etcd.jetcd.watch.WatchEvent;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;

/** Configuration, presence, a lock, an election and a counter: `Etcd HOST:PORT TASK`. */
public final class Etcd {
  private final Client client;
  private final KV kv;

  private Etcd(Client client) {
    this.client = client;
    kv = client.getKVClient();
  }

  public static void main(String[] args) throws Exception {
    try (Client client = Client.builder().endpoints("http://" + args[0]).build()) {
      Etcd etcd = new Etcd(client);
      Map<String, Callable<Object>> tasks = Map.of("config", etcd::config, "presence", etcd::presence,
          "lock", etcd::lock, "election", etcd::election, "counter", etcd::counter);
      System.out.println(tasks.get(args[1]).call());
    }
  }

  /** Reads settings, and hears of every change. */
  private Object config() throws Exception {
    put("config/colour", "blue");
    GetResponse now = kv.get(bytes("config/"), GetOption.builder().isPrefix(true).build()).get();
    Map<String, String> settings = new TreeMap<>();
    now.getKvs().forEach(pair -> settings.put(text(pair.getKey()), text(pair.getValue())));
    BlockingQueue<WatchEvent> changes = new LinkedBlockingQueue<>();
    try (Watcher watcher = watch("config/", now.getHeader().getRevision() + 1, changes)) {
      put("config/colour", "green"); // as another program does
      KeyValue change = changes.take().getKeyValue();
      settings.put(text(change.getKey()), text(change.getValue()));
    }
    return settings;
  }

  /** A key lives as long as the program that keeps its lease alive. */
  private Object presence() throws Exception {
    long lease = client.getLeaseClient().grant(2).get().getID();
    CloseableClient alive = client.getLeaseClient().keepAlive(lease, Observers.observer(answer -> {}));
    PutOption leased = PutOption.builder().withLeaseId(lease).build();
    long put = kv.put(bytes("online/alice"), bytes(""), leased).get().getHeader().getRevision();
    BlockingQueue<WatchEvent> changes = new LinkedBlockingQueue<>();
    try (Watcher watcher = watch("online/", put + 1, changes)) {
      alive.close(); // as if the program had ended
      WatchEvent change = changes.take();
      return text(change.getKeyValue().getKey()) + " " + change.getEventType();
    }
  }

  /** Several programs change one value, one after the other. */
  private Object lock() throws Exception {
    kv.delete(bytes("account")).get();
    together(5, () -> {
      long lease = client.getLeaseClient().grant(30).get().getID();
      ByteSequence held = client.getLockClient().lock(bytes("lock/account"), lease).get().getKey();
      try {
        KeyValue found = get("account");
        put("account", found == null ? 1 : number(found) + 1);
      } finally {
        client.getLockClient().unlock(held).get();
        client.getLeaseClient().revoke(lease).get();
      }
      return null;
    });
    return number(get("account"));
  }

  /** Bob waits until Alice resigns. */
  private Object election() throws Exception {
    List<String> leaders = new ArrayList<>();
    Election election = client.getElectionClient();
    LeaderKey alice = campaign("alice").get();
    Future<LeaderKey> next = campaign("bob");
    leaders.add(text(election.leader(bytes("leader")).get().getKv().getValue()));
    election.resign(alice).get();
    LeaderKey bob = next.get();
    leaders.add(text(election.leader(bytes("leader")).get().getKv().getValue()));
    election.resign(bob).get();
    return leaders;
  }

  /** The answer arrives when this candidate leads; its lease is to be kept alive. */
  private Future<LeaderKey> campaign(String name) throws Exception {
    long lease = client.getLeaseClient().grant(10).get().getID();
    return client.getElectionClient().campaign(bytes("leader"), lease, bytes(name)).thenApply(won -> won.getLeader());
  }

  /** Transactions succeed only if nobody else counted meanwhile. */
  private Object counter() throws Exception {
    kv.delete(bytes("visits")).get();
    List<Long> sums = together(10, () -> {
      for (;;) {
        KeyValue found = get("visits");
        long revision = found == null ? 0 : found.getModRevision();
        long next = found == null ? 1 : number(found) + 1;
        Cmp same = new Cmp(bytes("visits"), Cmp.Op.EQUAL, CmpTarget.modRevision(revision));
        Op count = Op.put(bytes("visits"), bytes(next), PutOption.DEFAULT);
        if (kv.txn().If(same).Then(count).commit().get().isSucceeded()) {
          return next;
        }
      }
    });
    Collections.sort(sums);
    return sums;
  }

  private Watcher watch(String prefix, long revision, BlockingQueue<WatchEvent> changes) {
    WatchOption from = WatchOption.builder().isPrefix(true).withRevision(revision).build();
    return client.getWatchClient().watch(bytes(prefix), from,
        Watch.listener(response -> changes.addAll(response.getEvents())));
  }

  private void put(String key, Object value) throws Exception {
    kv.put(bytes(key), bytes(value)).get();
  }

  private KeyValue get(String key) throws Exception {
    List<KeyValue> found = kv.get(bytes(key)).get().getKvs();
    return found.isEmpty() ? null : found.get(0);
  }

  /** Runs a task n times side by side. */
  private static <T> List<T> together(int n, Callable<T> task) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(n);
    try {
      List<T> results = new ArrayList<>();
      for (Future<T> one : threads.invokeAll(Collections.nCopies(n, task))) {
        results.add(one.get());
      }
      return results;
    } finally {
      threads.shutdown();
    }
  }

  private static long number(KeyValue pair) {
    return Long.parseLong(text(pair.getValue()));
  }

  private static ByteSequence bytes(Object text) {
    return ByteSequence.from(text.toString(), StandardCharsets.UTF_8);
  }

  private static String text(ByteSequence bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }
}
