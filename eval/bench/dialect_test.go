package bench

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// received parses a generated frame as a node does.
func received(t *testing.T, b []byte) frame.Packet {
	t.Helper()
	var p frame.Packet
	if outcome, ours := frame.Judge(b, testWay().dest, &p); !ours || outcome != wire.Accepted {
		t.Fatalf("the frame is not accepted: ours %v, %v", ours, outcome)
	}
	return p
}

// judged passes an answer to a packet to the counter and returns the counts.
func judged(t *testing.T, l *load, request frame.Packet, to netip.AddrPort, payload []byte) Counters {
	t.Helper()
	before, err := l.counters()
	if err != nil {
		t.Fatal(err)
	}
	b := frame.Append(nil, &frame.Packet{From: request.To, To: to, Message: payload})
	if _, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: b}); err != nil {
		t.Fatal(err)
	}
	after, err := l.counters()
	if err != nil {
		t.Fatal(err)
	}
	return after.minus(before)
}

func portOf(t *testing.T, p frame.Packet, nth int) {
	t.Helper()
	if want := uint16(windowPort + nth%windowPort); p.From.Port() != want {
		t.Errorf("request %d comes from port %d, not %d", nth, p.From.Port(), want)
	}
}

func TestNetChainDialect(t *testing.T) {
	next := netip.MustParseAddr("10.0.0.3")
	for _, wide := range []bool{false, true} {
		d := dialect{protocol: NetChain, wide: wide, lists: [2][]netip.Addr{nil, {next, testWay().from.addr}}}
		l := loadForTest(t, &request{op: wire.OpRead, writeShare: 0.5, valueBytes: 21, keys: randomKeys(3), dialect: d})
		for nth := range 40 {
			p := received(t, generateOnce(t, l))
			portOf(t, p, nth)
			m, err := netchain.Decode(p.Message)
			if err != nil || m.Wide != wide || m.Seq != 0 {
				t.Fatalf("%+v, %v", m, err)
			}
			key := wire.Key{Hi: binary.BigEndian.Uint64(m.Key[:]), Lo: binary.BigEndian.Uint64(m.Key[8:])}
			value := valueOf(key, 21)
			writes := uint64(0)
			answer := netchain.Message{Op: netchain.ReadReply, Wide: wide, Seq: 3, Key: m.Key, Value: value}
			if m.Op == netchain.Write {
				if !bytes.Equal(m.Value, value) || len(m.List) != 2 || m.List[0] != next {
					t.Errorf("%+v", m)
				}
				answer.Op, writes = netchain.WriteReply, 1
			}
			if x := judged(t, l, p, p.From, answer.Append(nil)); x.OK != 1 || x.OKWrites != writes {
				t.Errorf("right: %+v", x)
			}
			answer.Value = bytes.Clone(value)
			answer.Value[nth%21]++
			if x := judged(t, l, p, p.From, answer.Append(nil)); x.Wrong != 1 || x.Why.String() != "value" {
				t.Errorf("wrong value: %+v", x)
			}
			answer.Op, answer.Value = netchain.NotFound, nil
			if x := judged(t, l, p, p.From, answer.Append(nil)); x.NotFound != 1 {
				t.Errorf("not found: %+v", x)
			}
			if x := judged(t, l, p, netip.AddrPortFrom(p.From.Addr(), generatorPort), answer.Append(nil)); x.Answers() != 0 {
				t.Errorf("to another port: %+v", x)
			}
		}
	}
}

func TestNetCRAQPaperDialect(t *testing.T) {
	keys := netcraqPaperKeys(70000) // more than 16 bits of KEY_ID
	l := loadForTest(t, &request{
		op: wire.OpRead, writeShare: 0.5, valueBytes: netcraqpaper.ValueBytes, keys: keys[69990:],
		dialect: dialect{protocol: NetCRAQPaper},
	})
	for nth := range 40 {
		p := received(t, generateOnce(t, l))
		portOf(t, p, nth)
		m, err := netcraqpaper.Decode(p.Message)
		if err != nil || uint64(m.Key) != keys[69990+nth%10].Lo {
			t.Fatalf("%+v, %v", m, err)
		}
		value, writes := netcraqPaperValue(m.Key), uint64(0)
		answer := netcraqpaper.Message{Op: netcraqpaper.ReadReply, Key: m.Key, Value: value}
		if m.Op == netcraqpaper.Write {
			if m.Value != value {
				t.Errorf("%+v", m)
			}
			answer.Op, writes = netcraqpaper.Acknowledge, 1
		}
		if x := judged(t, l, p, p.From, answer.Append(nil)); x.OK != 1 || x.OKWrites != writes {
			t.Errorf("right: %+v", x)
		}
		answer.Value[nth%16]++
		if x := judged(t, l, p, p.From, answer.Append(nil)); x.Wrong != 1 || x.Why.String() != "value" {
			t.Errorf("wrong value: %+v", x)
		}
	}
}

// TestBuckets expects that the middle of a time's bucket is close to the time.
func TestBuckets(t *testing.T) {
	for i := 1; i < buckets; i++ {
		if bucketTime(i) <= bucketTime(i-1) {
			t.Fatalf("bucket %d begins before the one before it", i)
		}
	}
	var counts [buckets]uint64
	counts[100], counts[2<<stepBits] = 98, 2
	if q := quantilesOf(&counts); q.Count != 100 || q.P50us != 0.1 || q.P99us != bucketTime(2<<stepBits)/1e3 {
		t.Errorf("%+v", q)
	}
}
