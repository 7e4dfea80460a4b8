import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Txn;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.PutResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.CompactOption;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class KvTest extends Store {
  @Test
  void readsWhatItWrote() throws Exception {
    assertNull(value("k"));
    for (int n = 0; n < 20; n++) {
      put("k", n);
      for (int i = 0; i < 3; i++) {
        assertEquals(Integer.toString(n), value("k"));
      }
    }
    assertEquals(1, get(client.getKVClient().delete(bytes("k"))).getDeleted());
    assertNull(value("k"));
  }

  @Test
  void keepsBytes() throws Exception {
    byte[] all = new byte[256];
    IntStream.range(0, all.length).forEach(i -> all[i] = (byte) i);
    ByteSequence key = ByteSequence.from(new byte[] {0, -1, 1});
    get(client.getKVClient().put(key, ByteSequence.from(all)));
    assertEquals(ByteSequence.from(all), get(client.getKVClient().get(key)).getKvs().get(0).getValue());
    put("empty", "");
    assertEquals("", value("empty"));
  }

  @Test
  void countsRevisions() throws Exception {
    long first = put("k", 1);
    PutResponse second = get(client.getKVClient().put(bytes("k"), bytes(2), PutOption.builder().withPrevKV().build()));
    assertEquals("1", text(second.getPrevKv().getValue()));
    GetResponse read = get(client.getKVClient().get(bytes("k")));
    KeyValue pair = read.getKvs().get(0);
    assertEquals(first, pair.getCreateRevision());
    assertEquals(second.getHeader().getRevision(), pair.getModRevision());
    assertEquals(2, pair.getVersion());
    assertTrue(read.getHeader().getRevision() >= pair.getModRevision());
    GetOption earlier = GetOption.builder().withRevision(first).build();
    assertEquals("1", text(get(client.getKVClient().get(bytes("k"), earlier)).getKvs().get(0).getValue()));
  }

  @Test
  void readsRanges() throws Exception {
    for (String key : List.of("a", "b/1", "b/2", "b/3", "c")) {
      put(key, key);
    }
    GetOption prefix = GetOption.builder().isPrefix(true).build();
    assertEquals(List.of("b/1", "b/2", "b/3"), keys(get(client.getKVClient().get(bytes("b/"), prefix)).getKvs()));
    GetOption last = GetOption.builder().isPrefix(true).withSortOrder(GetOption.SortOrder.DESCEND)
        .withSortField(GetOption.SortTarget.KEY).withLimit(2).build();
    GetResponse page = get(client.getKVClient().get(bytes("b/"), last));
    assertEquals(List.of("b/3", "b/2"), keys(page.getKvs()));
    assertTrue(page.isMore());
    assertEquals(3, page.getCount());
    GetOption range = GetOption.builder().withRange(bytes("b/2")).build();
    assertEquals(List.of("a", "b/1"), keys(get(client.getKVClient().get(bytes("a"), range)).getKvs()));
    GetOption count = GetOption.builder().isPrefix(true).withCountOnly(true).build();
    assertEquals(3, get(client.getKVClient().get(bytes("b/"), count)).getCount());
  }

  @Test
  void deletesRanges() throws Exception {
    for (int n = 0; n < 150; n++) {
      put("d/" + n, n);
      value("d/" + n);
    }
    DeleteOption range = DeleteOption.builder().withRange(bytes("d/11")).withPrevKV(true).build();
    assertEquals(12, get(client.getKVClient().delete(bytes("d/1"), range)).getPrevKvs().size());
    DeleteOption prefix = DeleteOption.builder().isPrefix(true).build();
    assertEquals(138, get(client.getKVClient().delete(bytes("d/"), prefix)).getDeleted());
  }

  @Test
  void compacts() throws Exception {
    long first = put("k", 1);
    long second = put("k", 2);
    get(client.getKVClient().compact(second, CompactOption.builder().withCompactPhysical(true).build()));
    GetOption earlier = GetOption.builder().withRevision(first).build();
    Exception refused =
        assertThrows(Exception.class, () -> get(client.getKVClient().get(bytes("k"), earlier)));
    assertTrue(refused.getMessage().contains("compacted"), refused.getMessage());
    assertEquals("2", value("k"));
  }

  @Test
  void transactionsTakeOneBranch() throws Exception {
    put("k", 1);
    for (boolean expected : new boolean[] {true, false}) {
      TxnResponse answer = get(client.getKVClient().txn()
          .If(new Cmp(bytes("k"), Cmp.Op.EQUAL, CmpTarget.value(bytes(1))))
          .Then(Op.put(bytes("k"), bytes(2), PutOption.DEFAULT), Op.get(bytes("k"), GetOption.DEFAULT))
          .Else(Op.get(bytes("k"), GetOption.DEFAULT)).commit());
      assertEquals(expected, answer.isSucceeded());
      assertEquals("2", text(answer.getGetResponses().get(0).getKvs().get(0).getValue()));
    }
  }

  @Test
  void transactionsNest() throws Exception {
    Op inner = Op.txn(new Cmp[] {new Cmp(bytes("a"), Cmp.Op.EQUAL, CmpTarget.version(0))},
        new Op[] {Op.put(bytes("b"), bytes("then"), PutOption.DEFAULT)},
        new Op[] {Op.put(bytes("b"), bytes("else"), PutOption.DEFAULT)});
    Txn outer = client.getKVClient().txn().If(new Cmp(bytes("b"), Cmp.Op.EQUAL, CmpTarget.version(0))).Then(inner);
    assertTrue(get(outer.commit()).isSucceeded());
    assertEquals("then", value("b"));
  }

  @Test
  void transactionsCreateAKeyOnce() throws Exception {
    List<CompletableFuture<TxnResponse>> answers = new ArrayList<>();
    for (int n = 0; n < 16; n++) {
      answers.add(client.getKVClient().txn().If(new Cmp(bytes("k"), Cmp.Op.EQUAL, CmpTarget.createRevision(0)))
          .Then(Op.put(bytes("k"), bytes(n), PutOption.DEFAULT)).commit());
    }
    List<Integer> winners = new ArrayList<>();
    for (int n = 0; n < answers.size(); n++) {
      if (get(answers.get(n)).isSucceeded()) {
        winners.add(n);
      }
    }
    assertEquals(1, winners.size());
    assertEquals(winners.get(0).toString(), value("k"));
  }

  @Test
  void transactionsWriteManyKeys() throws Exception {
    for (int round = 0; round < 3; round++) {
      List<Op> puts = new ArrayList<>();
      for (int n = 0; n < 128; n++) {
        puts.add(Op.put(bytes("many/" + n), bytes(round), PutOption.DEFAULT));
      }
      get(client.getKVClient().txn().Then(puts.toArray(Op[]::new)).commit());
      for (int n = 0; n < 128; n++) {
        assertEquals(Integer.toString(round), value("many/" + n));
      }
    }
  }
}
