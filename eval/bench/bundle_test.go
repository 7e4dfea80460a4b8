package bench

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// bundleForTest returns a load whose bundles have as many slots as fit.
func bundleForTest(t *testing.T, r *request) *load {
	t.Helper()
	writes := r.op == wire.OpPut || r.writeShare > 0
	most := MostReads(r.valueBytes)
	if writes {
		most = MostWrites(r.valueBytes)
	}
	var err error
	if r.bundle, err = newBundle(most, r.valueBytes, writes, false); err != nil {
		t.Fatal(err)
	}
	return loadForTest(t, r)
}

// decodeBundle decodes a generated frame as the node does.
func decodeBundle(t *testing.T, b []byte) []wire.Message {
	t.Helper()
	var p frame.Packet
	outcome, ours := frame.Judge(b, testWay().dest, &p)
	if !ours || outcome != wire.Accepted || p.From != testWay().source() {
		t.Fatalf("the frame is not accepted: ours %v, %v, %+v", ours, outcome, p)
	}
	bundle := wire.Bundle(p.Message)
	if !wire.IsBundle(p.Message) || !bundle.Sound() {
		t.Fatalf("malformed bundle: %x", p.Message[:wire.BundleBytes])
	}
	messages := make([]wire.Message, bundle.Count())
	for i := range messages {
		encoded, ok := bundle.Message(i)
		if !ok {
			t.Fatalf("slot %d is damaged", i)
		}
		if outcome := wire.Decode(encoded, &messages[i]); outcome != wire.Accepted {
			t.Fatalf("the message in slot %d is not accepted: %v", i, outcome)
		}
	}
	return messages
}

func TestGeneratedBundles(t *testing.T) {
	const frames = 300
	for _, share := range []float64{0, 0.25, 1} {
		for _, valueBytes := range []int{0, 16, 21, 128, 600} {
			t.Run(fmt.Sprintf("%v/%d", share, valueBytes), func(t *testing.T) {
				keys := randomKeys(5)
				r := &request{op: wire.OpRead, writeShare: share, valueBytes: valueBytes, keys: keys}
				if share == 1 {
					r.op, r.writeShare = wire.OpPut, 0
				}
				l := bundleForTest(t, r)
				seen, lastSeq := map[uint64]bool{}, map[uint64]uint64{}
				nth, writes := 0, 0
				for range frames {
					messages := decodeBundle(t, generateOnce(t, l))
					if len(messages) != r.bundle.slots {
						t.Fatalf("%d messages, not %d", len(messages), r.bundle.slots)
					}
					for _, m := range messages {
						if m.Key != keys[nth%len(keys)] || m.Epoch != epoch || seen[m.Request] {
							t.Fatalf("request %d is %+v", nth, m)
						}
						nth++
						seen[m.Request] = true
						if m.Op == wire.OpRead {
							continue
						}
						writes++
						if m.Op != wire.OpPut || !bytes.Equal(m.Value, valueOf(m.Key, valueBytes)) || m.Seq != lastSeq[m.Session]+1 {
							t.Fatalf("request %d is %+v", nth, m)
						}
						lastSeq[m.Session] = m.Seq
					}
				}
				if got, err := l.counters(); err != nil || got.Sent != uint64(nth) {
					t.Errorf("%d requests counted as %v, %v", nth, got, err)
				}
				if want := share * float64(nth); float64(writes) < 0.9*want || float64(writes) > 1.1*want {
					t.Errorf("%d writes among %d requests, not %v", writes, nth, want)
				}
			})
		}
	}
}

// replyTo returns the answer to a request of a load with values of the given size.
func replyTo(m wire.Message, valueBytes int) wire.Message {
	r := wire.Message{Op: wire.OpReply, Hops: 1, Epoch: epoch, Request: m.Request, Key: m.Key, Version: 1}
	if m.Op == wire.OpRead {
		r.Value = valueOf(m.Key, valueBytes)
	}
	return r
}

// countFrame runs the counter on a frame with the given message.
func countFrame(t *testing.T, l *load, message []byte) Counters {
	t.Helper()
	w := testWay()
	b := frame.Append(nil, &frame.Packet{
		SourceMAC: frame.MAC(w.to.mac), DestMAC: frame.MAC(w.from.mac), From: w.dest, To: w.source(), Message: message,
	})
	verdict, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: b})
	if err != nil || verdict != 1 {
		t.Fatalf("verdict %d, %v", verdict, err)
	}
	got, err := l.counters()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCounterJudgesSlots changes the answer in one slot and expects that no other slot is counted
// differently.
func TestCounterJudgesSlots(t *testing.T) {
	const valueBytes, changed = 16, 3
	put := func(change func(*wire.Message)) func(wire.Bundle, wire.Message) {
		return func(b wire.Bundle, m wire.Message) { change(&m); b.Put(changed, &m) }
	}
	bytesOf := func(b wire.Bundle) []byte {
		return b[wire.BundleBytes+changed*wire.SlotFor(wire.ChainBytes+valueBytes):]
	}
	tests := []struct {
		name   string
		change func(wire.Bundle, wire.Message)
		want   func(Counters) bool
	}{
		{"lost", func(b wire.Bundle, _ wire.Message) { b.Clear(changed) }, func(x Counters) bool { return x.Lost() == 1 }},
		{"busy", put(func(m *wire.Message) { m.Detail, m.Value = uint16(wire.StatusBusy), nil }),
			func(x Counters) bool { return x.Busy == 1 }},
		{"not found", put(func(m *wire.Message) {
			m.Detail, m.Value = uint16(wire.StatusNotFound), nil
		}), func(x Counters) bool { return x.NotFound == 1 }},
		{"refused", put(func(m *wire.Message) {
			m.Detail, m.Value = uint16(wire.StatusFull), nil
		}), func(x Counters) bool { return x.Other == 1 }},
		{"no reply", put(func(m *wire.Message) {
			m.Op, m.Detail = wire.OpUpdate, uint16(wire.StatusBusy)
		}), func(x Counters) bool { return x.Wrong == 1 }},
		{"wrong value", put(func(m *wire.Message) { m.Value = bytes.Repeat([]byte{1}, valueBytes) }), wrong("value")},
		{"never asked", put(func(m *wire.Message) { m.Request ^= 1 }), wrong("request")},
		{"short", put(func(m *wire.Message) { m.Value = nil }), func(x Counters) bool {
			return x.Wrong == 1 && x.Why&1 != 0
		}},
		{"damaged length", func(b wire.Bundle, _ wire.Message) { bytesOf(b)[2] ^= 1 }, wrong("header")},
		{"impossible length", func(b wire.Bundle, _ wire.Message) {
			bytesOf(b)[1], bytesOf(b)[3] = 8, ^byte(8)
		}, wrong("size")},
		{"damaged", func(b wire.Bundle, _ wire.Message) { bytesOf(b)[wire.SlotBytes+9] ^= 1 }, wrong("checksum")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &request{op: wire.OpRead, writeShare: 0.5, valueBytes: valueBytes, keys: randomKeys(3)}
			l := bundleForTest(t, r)
			var asked []wire.Message
			for len(asked) == 0 || asked[changed].Op != wire.OpRead {
				asked = decodeBundle(t, generateOnce(t, l))
			}
			before, err := l.counters()
			if err != nil {
				t.Fatal(err)
			}
			b := wire.NewBundle(nil, r.bundle.slots, r.bundle.slotBytes)
			for i := range asked {
				reply := replyTo(asked[i], valueBytes)
				b.Put(i, &reply)
			}
			test.change(b, replyTo(asked[changed], valueBytes))
			got := countFrame(t, l, b).minus(before)
			got.Sent = uint64(len(asked))
			if got.OK != uint64(len(asked)-1) || !test.want(got) || got.OKWrites != uint64(writesAmong(asked)) {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func writesAmong(messages []wire.Message) (n int) {
	for _, m := range messages {
		if m.Op == wire.OpPut {
			n++
		}
	}
	return n
}

func TestCounterWantsTheBundleItSent(t *testing.T) {
	r := &request{op: wire.OpRead, valueBytes: 16, keys: randomKeys(1)}
	l := bundleForTest(t, r)
	if got := countFrame(t, l, wire.NewBundle(nil, r.bundle.slots, r.bundle.slotBytes+4)); got.Wrong != 1 ||
		got.Why.String() != "size" {
		t.Errorf("a longer bundle: %+v", got)
	}
	other := wire.NewBundle(nil, r.bundle.slots, r.bundle.slotBytes)
	other[0]++
	if got := countFrame(t, l, other); got.Wrong != 2 || got.Why.String() != "size, header" {
		t.Errorf("another header: %+v", got)
	}
}

// TestSwappedBundleCounts expects that every slot of a bundle returned by the swap program counts
// as an answer.
func TestSwappedBundleCounts(t *testing.T) {
	for _, op := range []wire.Op{wire.OpRead, wire.OpPut} {
		r := &request{op: op, valueBytes: 16, onlySizes: true, keys: randomKeys(1)}
		l := bundleForTest(t, r)
		options := &ebpf.RunOptions{Data: generateOnce(t, l), DataOut: make([]byte, 2048)}
		if verdict, err := l.collection.Programs["swap"].Run(options); err != nil || verdict != 3 {
			t.Fatalf("verdict %d, %v", verdict, err)
		}
		if _, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: options.DataOut}); err != nil {
			t.Fatal(err)
		}
		if got, err := l.counters(); err != nil || got.OK != uint64(r.bundle.slots) || got.Answers() != got.OK {
			t.Errorf("%v: counted %v, %v", op, got, err)
		}
	}
}

func TestBundleOptions(t *testing.T) {
	for _, slots := range []int{0, 1} {
		if b, err := newBundle(slots, 16, true, false); err != nil || b != (bundle{}) {
			t.Errorf("%d requests of a frame: %+v, %v", slots, b, err)
		}
	}
	for _, slots := range []int{-1, MostWrites(16) + 1} {
		if _, err := newBundle(slots, 16, true, false); !errors.As(err, new(*OptionError)) {
			t.Errorf("%d requests of a frame: %v", slots, err)
		}
	}
	if MostReads(16) != 21 || MostWrites(16) != 12 {
		t.Errorf("a frame holds %d reads and %d writes", MostReads(16), MostWrites(16))
	}
	if b, err := newBundle(3, 16, false, true); err != nil || b.slotBytes < wire.SlotBytes+wire.ChainBytes {
		t.Errorf("%+v, %v: no room for a FORWARD", b, err)
	}
}

// TestGeneratedBundlesAreTimed expects a separate time for every answer of a bundle.
func TestGeneratedBundlesAreTimed(t *testing.T) {
	for _, share := range []float64{0, 0.25} {
		r := &request{op: wire.OpRead, writeShare: share, valueBytes: 16, timing: true, keys: randomKeys(3)}
		l := bundleForTest(t, r)
		asked := decodeBundle(t, generateOnce(t, l))
		b := wire.NewBundle(nil, r.bundle.slots, r.bundle.slotBytes)
		for i := range asked[1:] {
			reply := replyTo(asked[i], r.valueBytes)
			b.Put(i, &reply)
		}
		countFrame(t, l, b)
		var times histogram
		if err := l.collection.Variables["histogram"].Get(&times); err != nil {
			t.Fatal(err)
		}
		reads, writes := quantilesOf(&times[0]).Count, quantilesOf(&times[1]).Count
		if reads+writes != uint64(len(asked)-1) || writes != uint64(writesAmong(asked[:len(asked)-1])) {
			t.Errorf("%d reads and %d writes were timed, of %d", reads, writes, len(asked)-1)
		}
	}
}
