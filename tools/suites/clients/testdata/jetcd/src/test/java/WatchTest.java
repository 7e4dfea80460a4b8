import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.Watch;
import io.etcd.jetcd.Watch.Watcher;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import io.etcd.jetcd.watch.WatchResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class WatchTest extends Store {
  private final BlockingQueue<WatchResponse> responses = new LinkedBlockingQueue<>();
  private final Watch.Listener listener = Watch.listener(responses::add);

  /** The next n events, as KIND key=value. */
  private List<String> events(int n) throws Exception {
    List<String> events = new ArrayList<>();
    while (events.size() < n) {
      WatchResponse response = responses.poll(30, TimeUnit.SECONDS);
      assertTrue(response != null, "after " + events);
      for (WatchEvent event : response.getEvents()) {
        events.add(event.getEventType() + " " + text(event.getKeyValue().getKey()) + "="
            + text(event.getKeyValue().getValue()));
      }
    }
    return events;
  }

  /** Waits until a watch is there: it has reported a write of its key, repeated until then. */
  private void begin(String key) throws Exception {
    do {
      put(key, "begin");
    } while (responses.poll(100, TimeUnit.MILLISECONDS) == null);
    put(key, "end");
    String last;
    do {
      last = events(1).get(0);
    } while (!last.endsWith("=end"));
  }

  @Test
  void seesWhatHappensToAKey() throws Exception {
    try (Watcher watcher = client.getWatchClient().watch(bytes("k"), listener)) {
      begin("k");
      put("other", 0);
      put("k", 1);
      put("k", 2);
      get(client.getKVClient().delete(bytes("k")));
      assertEquals(List.of("PUT k=1", "PUT k=2", "DELETE k="), events(3));
    }
  }

  @Test
  void seesAPrefixInOrder() throws Exception {
    WatchOption prefix = WatchOption.builder().isPrefix(true).build();
    try (Watcher watcher = client.getWatchClient().watch(bytes("p/"), prefix, listener)) {
      begin("p/0");
      get(client.getKVClient().txn().Then(Op.put(bytes("p/1"), bytes("a"), PutOption.DEFAULT),
          Op.put(bytes("p/2"), bytes("b"), PutOption.DEFAULT)).commit());
      get(client.getKVClient().delete(bytes("p/"), DeleteOption.builder().isPrefix(true).build()));
      assertEquals(List.of("PUT p/1=a", "PUT p/2=b", "DELETE p/0=", "DELETE p/1=", "DELETE p/2="), events(5));
    }
  }

  @Test
  void beginsAtAnEarlierRevision() throws Exception {
    long first = put("k", 1);
    put("k", 2);
    WatchOption earlier = WatchOption.builder().withRevision(first).build();
    try (Watcher watcher = client.getWatchClient().watch(bytes("k"), earlier, listener)) {
      put("k", 3);
      assertEquals(List.of("PUT k=1", "PUT k=2", "PUT k=3"), events(3));
    }
  }

  @Test
  void leavesOutPutsAndHasPreviousValues() throws Exception {
    long first = put("k", "old");
    WatchOption option = WatchOption.builder().withRevision(first).withNoPut(true).withPrevKV(true).build();
    try (Watcher watcher = client.getWatchClient().watch(bytes("k"), option, listener)) {
      put("k", "new");
      get(client.getKVClient().delete(bytes("k")));
      WatchResponse response = responses.poll(30, TimeUnit.SECONDS);
      assertEquals("new", text(response.getEvents().get(0).getPrevKV().getValue()));
    }
  }

  @Test
  void reportsProgress() throws Exception {
    WatchOption option = WatchOption.builder().withProgressNotify(true).build();
    long revision = put("other", 1);
    try (Watcher watcher = client.getWatchClient().watch(bytes("k"), option, listener)) {
      begin("k");
      client.getWatchClient().requestProgress();
      WatchResponse response = responses.poll(30, TimeUnit.SECONDS);
      assertTrue(response != null && response.isProgressNotify());
      assertTrue(response.getHeader().getRevision() >= revision);
    }
  }
}
