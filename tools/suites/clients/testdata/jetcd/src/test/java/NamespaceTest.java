import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.options.DeleteOption;
import org.junit.jupiter.api.Test;

class NamespaceTest extends Store {
  @Test
  void hasItsOwnKeys() throws Exception {
    put("k", 0);
    try (Client other = builder().namespace(bytes("ns/")).build()) {
      get(other.getKVClient().put(bytes("k"), bytes(1)));
      KeyValue pair = get(other.getKVClient().get(bytes("k"))).getKvs().get(0);
      assertEquals("k=1", text(pair.getKey()) + "=" + text(pair.getValue()));
      assertEquals("1", value("ns/k"));
      ByteSequence all = ByteSequence.from(new byte[] {0});
      get(other.getKVClient().delete(all, DeleteOption.builder().withRange(all).build()));
      assertNull(value("ns/k"));
      assertEquals("0", value("k"));
    }
  }
}
