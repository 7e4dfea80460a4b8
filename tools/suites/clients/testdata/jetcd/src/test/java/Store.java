import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.DeleteOption;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;

/** Tests with a client and an empty store. */
@Timeout(60)
abstract class Store {
  static final String ADDRESS = "http://127.0.0.1:2379";

  Client client;

  @BeforeEach
  void empty() throws Exception {
    client = builder().build();
    deleteAll();
  }

  @AfterEach
  void close() throws Exception {
    deleteAll();
    client.close();
  }

  static ClientBuilder builder() {
    return Client.builder().endpoints(ADDRESS);
  }

  private void deleteAll() throws Exception {
    ByteSequence all = ByteSequence.from(new byte[] {0});
    get(client.getKVClient().delete(all, DeleteOption.builder().withRange(all).build()));
  }

  static <T> T get(CompletableFuture<T> future) throws Exception {
    return future.get(30, TimeUnit.SECONDS);
  }

  static ByteSequence bytes(Object text) {
    return ByteSequence.from(text.toString(), StandardCharsets.UTF_8);
  }

  static String text(ByteSequence bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }

  static List<String> keys(List<KeyValue> pairs) {
    return pairs.stream().map(pair -> text(pair.getKey())).toList();
  }

  long put(String key, Object value) throws Exception {
    return get(client.getKVClient().put(bytes(key), bytes(value))).getHeader().getRevision();
  }

  /** The value of a key, or null. */
  String value(String key) throws Exception {
    List<KeyValue> pairs = get(client.getKVClient().get(bytes(key))).getKvs();
    return pairs.isEmpty() ? null : text(pairs.get(0).getValue());
  }
}
