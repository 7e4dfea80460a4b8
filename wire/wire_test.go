package wire

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// message draws a message that nodes accept.
func message(t *rapid.T) *Message {
	m := &Message{
		Op: rapid.SampledFrom([]Op{OpRead, OpPut, OpDelete, OpCAS, OpAdd, OpForward, OpUpdate, OpRelay, OpAck,
			OpProbe}).Draw(t, "op"),
		Hops:    uint8(rapid.IntRange(0, MaxHops-1).Draw(t, "hops")),
		Shard:   rapid.Uint16().Draw(t, "shard"),
		Epoch:   rapid.Uint32().Draw(t, "epoch"),
		Request: rapid.Uint64().Draw(t, "request"),
		Key:     Key{rapid.Uint64().Draw(t, "key, high"), rapid.Uint64().Draw(t, "key, low")},
	}
	op := m.Op
	switch m.Op {
	case OpRead:
		if m.Flags = rapid.SampledFrom([]Flag{0, FlagAny, FlagBounded}).Draw(t, "flags"); m.Flags == FlagBounded {
			m.Detail = rapid.Uint16().Draw(t, "bound")
		}
		return m
	case OpAck, OpProbe:
		m.Version = rapid.Uint64().Draw(t, "version")
		return m
	case OpForward, OpUpdate, OpRelay:
		addr := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
		m.Client = netip.AddrPortFrom(addr, uint16(rapid.IntRange(1, 65535).Draw(t, "port")))
		op = rapid.SampledFrom([]Op{OpPut, OpDelete, OpCAS, OpAdd}).Draw(t, "client op")
		m.ClientOp = op
		if m.Op != OpForward {
			m.Version = rapid.Uint64Min(1).Draw(t, "version")
		}
	}
	m.Session, m.Seq = rapid.Uint64Min(1).Draw(t, "session"), rapid.Uint64Min(1).Draw(t, "seq")
	if op == OpCAS || op == OpAdd {
		m.Operand = rapid.Uint64().Draw(t, "operand")
	}
	length := rapid.IntRange(0, MaxValueBytes).Draw(t, "length")
	if n, fixed := passedValueBytes(&Message{Op: m.Op, ClientOp: op}); m.Op.IsChain() && fixed {
		length = n
	} else if !m.Op.IsChain() && (op == OpDelete || op == OpAdd) {
		length = 0
	}
	m.Value = rapid.SliceOfN(rapid.Byte(), length, length).Draw(t, "value")
	return m
}

func TestEveryMessageComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := message(t)
		var got Message
		if outcome := Decode(m.Append(nil), &got); outcome != Accepted {
			t.Fatalf("%+v is refused: %v", m, outcome)
		}
		if len(got.Value) == 0 {
			got.Value = m.Value
		}
		if !reflect.DeepEqual(&got, m) {
			t.Fatalf("sent %+v\n got %+v", m, &got)
		}
	})
}

func TestOneDamagedBitIsNoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := message(t).Append(nil)
		bit := rapid.IntRange(0, 8*len(b)-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if outcome := Decode(b, new(Message)); outcome == Accepted || outcome == OutcomeBadRequest {
			t.Fatalf("bit %d: %v", bit, outcome)
		}
	})
}

func TestDecodeNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if len(b) >= BaseBytes {
			b[0], b[1], b[2] = Magic>>8, Magic&0xff, WireVersion
			Seal(b)
		}
		var m Message
		Decode(b, &m)
		Peek(b, &m)
		if err := DecodeReply(b, &m); err != nil && !errors.Is(err, ErrNotReply) {
			t.Fatal(err)
		}
	})
}

// TestSum compares with the sum as RFC 1071 defines it, 16 bits at a time.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		var want uint32
		for i, x := range b {
			want += uint32(x) << (8 * (1 - i%2))
			want = want>>16 + want&0xffff
		}
		if got := Fold(Sum(b)); got != uint16(want) {
			t.Fatalf("%#x, want %#x", got, want)
		}
	})
	// The example of RFC 1071, section 3.
	if got := Fold(Sum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7})); got != 0xddf2 {
		t.Errorf("the example of RFC 1071 sums to %#x", got)
	}
}

func TestReplyComesBack(t *testing.T) {
	want := Message{Op: OpReply, Flags: FlagTail, Hops: 3, Shard: 9, Epoch: 7, Detail: uint16(StatusOk), Request: 5,
		Key: Key{1, 2}, Version: 11, Value: []byte("value")}
	var got Message
	if err := DecodeReply(want.Append(nil), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"short":   want.Append(nil)[:VersionBytes-1],
		"damaged": bytes.Replace(want.Append(nil), []byte("value"), []byte("evalu!"), 1),
		"a read":  (&Message{Op: OpRead}).Append(make([]byte, 0, 99)),
	} {
		if err := DecodeReply(b, &got); !errors.Is(err, ErrNotReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeys(t *testing.T) {
	k, err := HashKey([]byte("abc")) // SHA-256 of "abc", FIPS 180-2: ba7816bf 8f01cfea 414140de 5dae2223 ...
	if err != nil || k.String() != "ba7816bf8f01cfea414140de5dae2223" {
		t.Errorf("%v, %v", k, err)
	}
	if back, err := ParseKey(k.String()); err != nil || back != k {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, make([]byte, MaxKeyBytes+1)} {
		if _, err := HashKey(bad); err == nil {
			t.Errorf("a key of %d bytes is taken", len(bad))
		}
	}
	if _, err := ParseKey("ba78"); err == nil {
		t.Error("a short key is taken")
	}
	if got := k.Shard(256); got != 0x23 {
		t.Errorf("shard %#x", got)
	}
}
