package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// needRoot skips a test that loads programs into the kernel, unless the environment requires it to
// run.
func needRoot(t *testing.T) {
	t.Helper()
	err := Preflight()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
}

// testWay returns a way between ports that do not exist: tests run programs only on packets in
// memory.
func testWay() way {
	return way{
		from: &port{name: "from", mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}, addr: netip.MustParseAddr("10.0.0.1")},
		to:   &port{name: "to", mac: net.HardwareAddr{2, 0, 0, 0, 0, 2}, addr: netip.MustParseAddr("10.0.0.2")},
		dest: netip.MustParseAddrPort("10.0.0.2:4411"),
	}
}

func loadForTest(t *testing.T, r *request) *load {
	t.Helper()
	needRoot(t)
	stayForTest(t)
	l, err := loadPrograms(r, testWay())
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(l.close)
	return l
}

// stayForTest pins the test to one CPU: every CPU has its own counters and its own position in the
// keys.
func stayForTest(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var before unix.CPUSet
	if err := errors.Join(unix.SchedGetaffinity(0, &before), stayOnCPU()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			t.Error(err)
		}
	})
}

// generateOnce runs the generator on a buffer with leftovers of an earlier packet.
func generateOnce(t *testing.T, l *load) []byte {
	t.Helper()
	rests := make([]byte, len(l.frame))
	for i := range rests {
		rests[i] = byte(rand.Uint32())
	}
	out := make([]byte, len(l.frame)+256)
	options := &ebpf.RunOptions{Data: rests, DataOut: out}
	verdict, err := l.collection.Programs["generate"].Run(options)
	if err != nil {
		t.Fatal(err)
	}
	if verdict != 3 {
		t.Fatalf("verdict %d, not XDP_TX", verdict)
	}
	return options.DataOut
}

// decode decodes a generated frame as the node does.
func decode(t *testing.T, b []byte) wire.Message {
	t.Helper()
	w := testWay()
	var p frame.Packet
	outcome, ours := frame.Judge(b, w.dest, &p)
	if !ours || outcome != wire.Accepted {
		t.Fatalf("the frame is not accepted: ours %v, %v", ours, outcome)
	}
	if p.From != w.source() || !bytes.Equal(p.DestMAC[:], w.to.mac) || !bytes.Equal(p.SourceMAC[:], w.from.mac) {
		t.Errorf("addresses are %+v", p)
	}
	var m wire.Message
	if outcome := wire.Decode(p.Message, &m); outcome != wire.Accepted {
		t.Fatalf("the message is not accepted: %v", outcome)
	}
	return m
}

func TestGeneratedReads(t *testing.T) {
	keys := randomKeys(3)
	l := loadForTest(t, &request{op: wire.OpRead, valueBytes: 16, keys: keys})
	seen := map[uint64]bool{}
	for i := range 7 {
		m := decode(t, generateOnce(t, l))
		if m.Op != wire.OpRead || m.Epoch != epoch || m.Key != keys[i%len(keys)] {
			t.Errorf("request %d is %+v, want a READ of %v", i, m, keys[i%len(keys)])
		}
		if seen[m.Request] {
			t.Errorf("request %d has an id used before", i)
		}
		seen[m.Request] = true
	}
	if got, err := l.counters(); err != nil || got.Sent != 7 {
		t.Errorf("counted %v, %v", got, err)
	}
}

func TestGeneratedWrites(t *testing.T) {
	for _, valueBytes := range []int{0, 1, 7, 8, 16, 127, 128, 1024, wire.MaxValueBytes} {
		t.Run(fmt.Sprint(valueBytes), func(t *testing.T) {
			keys := randomKeys(2)
			l := loadForTest(t, &request{op: wire.OpPut, valueBytes: valueBytes, keys: keys})
			lastSeq := map[uint64]uint64{}
			for i := range sessionsPerCPU + 3 {
				m := decode(t, generateOnce(t, l))
				if m.Op != wire.OpPut || m.Key != keys[i%len(keys)] || !bytes.Equal(m.Value, valueOf(m.Key, valueBytes)) {
					t.Fatalf("request %d is %v %v with %d bytes", i, m.Op, m.Key, len(m.Value))
				}
				if m.Seq != lastSeq[m.Session]+1 {
					t.Fatalf("request %d has seq %d after %d", i, m.Seq, lastSeq[m.Session])
				}
				lastSeq[m.Session] = m.Seq
			}
			if len(lastSeq) != sessionsPerCPU {
				t.Errorf("%d sessions, not %d", len(lastSeq), sessionsPerCPU)
			}
		})
	}
}

// answer returns the frame of a node's answer to a request.
func answer(request wire.Message, version uint64, value []byte, change func(*wire.Message)) []byte {
	w := testWay()
	m := wire.Message{
		Op: wire.OpReply, Hops: 1, Epoch: epoch, Request: request.Request, Key: request.Key, Version: version, Value: value,
	}
	if change != nil {
		change(&m)
	}
	return frame.Append(nil, &frame.Packet{
		SourceMAC: frame.MAC(w.to.mac), DestMAC: frame.MAC(w.from.mac), From: w.dest, To: w.source(), Message: m.Append(nil),
	})
}

func TestCounterJudgesAnswers(t *testing.T) {
	const valueBytes = 21 // two words and an odd remainder
	tests := []struct {
		name   string
		change func(*wire.Message)
		damage int // byte of the frame to invert, from its end; 0: none
		want   func(Counters) bool
	}{
		{"right", nil, 0, func(x Counters) bool { return x.OK == 1 && x.HopsMax == 2 }},
		{"not found", func(m *wire.Message) { m.Detail = uint16(wire.StatusNotFound) }, 0,
			func(x Counters) bool { return x.NotFound == 1 }},
		{"busy", func(m *wire.Message) {
			m.Detail = uint16(wire.StatusBusy)
		}, 0, func(x Counters) bool { return x.Busy == 1 }},
		{"refused", func(m *wire.Message) {
			m.Detail = uint16(wire.StatusFull)
		}, 0, func(x Counters) bool { return x.Other == 1 }},
		{"wrong first byte", func(m *wire.Message) { m.Value[0]++ }, 0, wrong("value")},
		{"wrong last byte", func(m *wire.Message) { m.Value[valueBytes-1]++ }, 0, wrong("value")},
		{"short value", func(m *wire.Message) { m.Value = m.Value[1:] }, 0, wrong("size")},
		{"no version", func(m *wire.Message) { m.Version = 0 }, 0, wrong("version")},
		{"unknown version", func(m *wire.Message) { m.Version = 3 }, 0, wrong("version")},
		{"never asked", func(m *wire.Message) { m.Request ^= 1 }, 0, wrong("request")},
		{"not yet asked", func(m *wire.Message) { m.Request += 1<<32 + 1 }, 0, wrong("request")},
		{"other key", func(m *wire.Message) { m.Key.Lo++ }, 0, wrong("request, value")},
		{"damaged", nil, 1, wrong("value, checksum")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := loadForTest(t, &request{op: wire.OpRead, valueBytes: valueBytes, versionMax: 2, keys: randomKeys(1)})
			m := decode(t, generateOnce(t, l))
			b := answer(m, 1, valueOf(m.Key, valueBytes), test.change)
			if test.damage > 0 {
				b[len(b)-test.damage] ^= 0xff
			}
			verdict, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: b})
			if err != nil || verdict != 1 {
				t.Fatalf("verdict %d, %v", verdict, err)
			}
			got, err := l.counters()
			if err != nil {
				t.Fatal(err)
			}
			if got.Answers() != 1 || !test.want(got) {
				t.Errorf("counted %v", got)
			}
		})
	}
}

func wrong(why string) func(Counters) bool {
	return func(x Counters) bool { return x.Wrong == 1 && x.Why.String() == why }
}

func TestCounterLetsOthersPass(t *testing.T) {
	l := loadForTest(t, &request{op: wire.OpRead, valueBytes: 16, keys: randomKeys(1)})
	m := decode(t, generateOnce(t, l))
	other := answer(m, 1, valueOf(m.Key, 16), nil)
	other[frame.HeaderBytes-6]++ // another UDP port
	for _, b := range [][]byte{other, other[:60]} {
		verdict, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: b})
		if err != nil || verdict != 2 {
			t.Errorf("verdict %d, %v; want XDP_PASS", verdict, err)
		}
	}
	if got, err := l.counters(); err != nil || got.Answers() != 0 {
		t.Errorf("counted %v, %v", got, err)
	}
}

func TestSwapSendsTheAnswersSizeBack(t *testing.T) {
	for _, valueBytes := range []int{0, 16, 1024} {
		l := loadForTest(t, &request{op: wire.OpRead, valueBytes: valueBytes, onlySizes: true, keys: randomKeys(1)})
		sent := generateOnce(t, l)
		out := make([]byte, 2048)
		options := &ebpf.RunOptions{Data: sent, DataOut: out}
		verdict, err := l.collection.Programs["swap"].Run(options)
		if err != nil || verdict != 3 {
			t.Fatalf("verdict %d, %v; want XDP_TX", verdict, err)
		}
		b := options.DataOut
		if want := frame.HeaderBytes + wire.VersionBytes + valueBytes; len(b) != want {
			t.Errorf("%d bytes come back, not %d", len(b), want)
		}
		if !bytes.Equal(b[0:6], sent[6:12]) || !bytes.Equal(b[26:30], sent[30:34]) || !bytes.Equal(b[34:36], sent[36:38]) {
			t.Error("addresses are not swapped")
		}
		if _, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: b}); err != nil {
			t.Fatal(err)
		}
		if got, err := l.counters(); err != nil || got.OK != 1 {
			t.Errorf("counted %v, %v", got, err)
		}
	}
}

func TestGeneratedMixture(t *testing.T) {
	const requests = 4000
	l := loadForTest(t, &request{op: wire.OpRead, writeShare: 0.25, valueBytes: 100, keys: randomKeys(4)})
	writesOf := map[wire.Key]int{}
	for range requests {
		m := decode(t, generateOnce(t, l))
		value, version := valueOf(m.Key, 100), uint64(7)
		if m.Op == wire.OpPut {
			writesOf[m.Key]++
			value = nil
		}
		if _, err := l.collection.Programs["count"].Run(&ebpf.RunOptions{Data: answer(m, version, value, nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.counters(); err != nil || got.OK != requests {
		t.Errorf("counted %v, %v", got, err)
	}
	for key, n := range writesOf {
		if want := requests / 16; n < want/2 || n > 2*want {
			t.Errorf("%d of %d requests write %v, about %d would be a quarter of its share", n, requests, key, want)
		}
	}
	if len(writesOf) != 4 {
		t.Errorf("only %d of 4 keys are written", len(writesOf))
	}
}
