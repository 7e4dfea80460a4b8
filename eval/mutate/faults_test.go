package mutate

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// resizing is a program that makes a frame longer, or shorter, and returns XDP_DROP if it cannot, else XDP_PASS.
func resizing(delta int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm32(asm.R2, delta).WithSymbol("resizing"),
		asm.FnXdpAdjustTail.Call(),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R0, 1),
		{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R1, Offset: 1},
		asm.Mov.Imm(asm.R0, 2),
		asm.Return(),
	}
}

// TestFail: frames that cannot grow shrink, and those of one length do neither.
func TestFail(t *testing.T) {
	roottest.Need(t)
	m, err := newMarks(2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.table.Close()
	none, growing, all := (*fault)(nil), &faults[0], &fault{results: map[asm.BuiltinFunc]int32{asm.FnXdpAdjustTail: -22}}
	for _, c := range []struct {
		f     *fault
		delta int32
		want  uint32
	}{{none, 4, 2}, {none, -4, 2}, {growing, 4, 1}, {growing, -4, 2}, {all, 4, 1}, {all, -4, 1}} {
		code, err := m.fail(c.f, resizing(c.delta))
		if err != nil {
			t.Fatal(err)
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: code, License: "GPL"})
		if err != nil {
			t.Fatalf("%+v: %v\n%v", c, err, code)
		}
		got, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 100), DataOut: make([]byte, 200)})
		if err != nil || got != c.want {
			t.Errorf("a change of %d bytes: action %d, want %d, %v", c.delta, got, c.want, err)
		}
		p.Close()
	}
}

// TestExcess: a node with a fault sends what the reference sends, BUSY, an answer without its value, or nothing.
func TestExcess(t *testing.T) {
	message := func(m wire.Message) []byte {
		return frame.Append(nil, &frame.Packet{From: conformance.Me, To: conformance.Client(1), Message: m.Append(nil)})
	}
	reply := wire.Message{Op: wire.OpReply, Version: 3, Value: []byte("v")}
	busy := wire.Message{Op: wire.OpReply, Detail: uint16(wire.StatusBusy)}
	short := wire.Message{Op: wire.OpReply, Version: 3, Flags: wire.FlagNoValue}
	other := wire.Message{Op: wire.OpReply, Version: 4, Value: []byte("v")}
	want := [][]byte{message(reply)}
	for what, c := range map[string]struct {
		verdict conformance.Verdict
		sent    []byte
		good    bool
	}{
		"the same":           {conformance.Sent, message(reply), true},
		"BUSY":               {conformance.Sent, message(busy), true},
		"no value":           {conformance.Sent, message(short), true},
		"another version":    {conformance.Sent, message(other), false},
		"it passes":          {conformance.Pass, message(short), true},
		"it passes, changed": {conformance.Pass, message(other), false},
		"a detour":           {conformance.Pass, append(make([]byte, linkBytes), append(message(reply)[linkBytes:], 0)...), true},
	} {
		if got := excess(message(short), c.verdict, [][]byte{c.sent}, want); (got == "") != c.good {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got := excess(message(short), conformance.Drop, nil, want); got != "" {
		t.Errorf("nothing is sent: %q", got)
	}
}

// TestChanged: each object and session is as before, or as it should become.
func TestChanged(t *testing.T) {
	key, session := wire.Key{Lo: 1}, chain.SessionKey{Session: 1}
	state := func(version, seq uint64) *conformance.State {
		return &conformance.State{
			Objects:  map[wire.Key]chain.Object{key: {Version: version, Committed: 1}},
			Sessions: map[chain.SessionKey]chain.Session{session: {Seq: seq}},
		}
	}
	for _, c := range []struct {
		got  *conformance.State
		good bool
	}{
		{state(1, 1), true}, {state(2, 2), true}, {state(2, 1), true}, {state(3, 1), false}, {state(1, 3), false},
		{new(conformance.State), false},
	} {
		if what := changed(state(1, 1), state(2, 2), c.got); (what == "") != c.good {
			t.Errorf("%+v: %q", c.got, what)
		}
	}
}

// TestPrepared: the other objects of a used table are no vector's, and most vectors can be run on nodes with faults.
func TestPrepared(t *testing.T) {
	cases, err := conformance.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for i := range cases {
		n := newCrowd(nil, &cases[i], mostOthers)
		if len(n.others) != mostOthers || slices.ContainsFunc(n.others, func(k wire.Key) bool { return slices.Contains(n.keys, k) }) {
			t.Errorf("%s is about the other objects %v", cases[i].Name, n.others)
		}
		if reloads(&cases[i]) {
			again++
		}
	}
	if again < len(cases)*9/10 {
		t.Errorf("the state of %d of %d vectors can be given to another node", again, len(cases))
	}
}

// TestFaults: the unchanged programs do less than they should while helpers fail, and nothing else.
func TestFaults(t *testing.T) {
	roottest.Need(t)
	s, err := NewXDP(t.Context(), 0, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	all := s.tests
	for i := range faults {
		t.Run(faults[i].name, func(t *testing.T) {
			s.tests = slices.DeleteFunc(slices.Clone(all), func(t test) bool { return t.vary.fault != &faults[i] })
			if v, err := s.Try(t.Context(), nil); v.Fate != Survived || err != nil || len(s.tests) < 100 {
				t.Errorf("%d tests: %v, %v", len(s.tests), v, err)
			}
		})
	}
}
