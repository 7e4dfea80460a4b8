package p4

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
	"github.com/netcraq/netcraq/wire"
)

func machine(t *testing.T, o chain.Options) *Harness {
	t.Helper()
	enginetest.Need(t)
	self := netip.MustParseAddrPort("10.77.0.2:4411")
	m, err := NewHarness(self, o, nil, func(netip.Addr) [6]byte { return [6]byte{2} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

var small = chain.Options{Shards: 2, CellBytes: 64, MaxObjects: 3, MaxSessions: 16}

// TestEngineThatDies: users of the switch get an error with the reason.
func TestEngineThatDies(t *testing.T) {
	m := machine(t, small)
	engine := m.sw.(*SWX)
	if err := engine.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-engine.Gone()
	for range m.sw.ForCPU() {
		t.Error("a frame from a switch that is gone")
	}
	if err := m.Renew(1); err != nil {
		t.Errorf("nothing is served, so nothing is asked of the switch: %v", err)
	}
	if _, err := m.Counters(); !errors.Is(err, errGone) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("counters of a switch that is gone: %v", err)
	}
}

// TestNoFilesAreLeft: a killed process cannot remove files, so the engine's program is none.
func TestNoFilesAreLeft(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	machine(t, small)
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("%s is a file while the engine runs", entry.Name())
	}
}

// TestProgramsThatDoNotLoad are refused with the line that is wrong.
func TestProgramsThatDoNotLoad(t *testing.T) {
	enginetest.Need(t)
	wide := "struct m_t {\n" + strings.Repeat("\tbit<64> f\n", 40) + "}\nmetadata instanceof m_t\n"
	for i := range 40 {
		wide = strings.Replace(wide, " f\n", " f"+string(rune('a'+i%26))+string(rune('a'+i/26))+"\n", 1)
	}
	for program, want := range map[string]string{
		"nonsense here\n":                   "line 1: nonsense",
		"\nstruct a_t {\n\tbit<x> b\n}\n":   "line 3: a field",
		wide:                                "behind the first 256 bytes",
		"apply {\n\trx m.nothing\n}\n":      "the program",
		"table t {\n\tsize many more\n}\n":  "line 2: size",
		"action a args none {\n\tfly h.x\n": "line",
	} {
		sw, err := StartSWX([]byte(program), EngineMegabytes)
		if err == nil {
			err = sw.Close()
			t.Errorf("%q is loaded, %v", program, err)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", program, err, want)
		}
	}
}

// TestPlaces: a key gets a place while there is one, and a place that was given up is given again, with nothing left in it.
func TestPlaces(t *testing.T) {
	m := machine(t, small)
	key := func(i uint64) wire.Key { return wire.Key{Hi: i, Lo: 2 * i} } // of shard 0
	for i := uint64(1); i <= 3; i++ {
		if err := m.PutObject(key(i), chain.Object{Version: i, Committed: i, Value: []byte("value"), Reads: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PutObject(key(4), chain.Object{Version: 4}); err == nil {
		t.Error("a fourth object has a place among three")
	}
	if err := m.Drop([]uint16{0}); err != nil {
		t.Fatal(err)
	}
	if all, err := m.AllObjects(); err != nil || len(all) != 0 {
		t.Errorf("after a drop: %v, %v", all, err)
	}
	if err := m.PutObject(key(5), chain.Object{Version: 5}); err != nil {
		t.Fatal(err)
	}
	o, ok, err := m.Object(key(5))
	if err != nil || !ok || o.Version != 5 || o.Reads != 0 || len(o.Value) != 0 {
		t.Errorf("in a place that was given up: %+v, %v, %v", o, ok, err)
	}
}
