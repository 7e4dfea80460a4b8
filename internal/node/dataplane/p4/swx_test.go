package p4

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
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
	m, err := NewHarness(nil, self, o, nil, func(netip.Addr) [6]byte { return [6]byte{2} })
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
	if _, err := m.Counters(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("counters of a switch that is gone: %v", err)
	}
}

// TestEngineOfAnotherVersion: an engine with other ports or requests is refused before it gets a frame.
func TestEngineOfAnotherVersion(t *testing.T) {
	for _, greeting := range []string{"ready", "ready 1", "ready 20"} {
		path := filepath.Join(t.TempDir(), "engine")
		text := "#!/bin/sh\necho " + greeting + " >&3\nread line <&3\n"
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(EngineVariable, path)
		sw, err := StartSWX([]byte("any program"), EngineMegabytes)
		if err == nil {
			t.Errorf("%q is accepted, %v", greeting, sw.Close())
		} else if !strings.Contains(err.Error(), "another version") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", greeting, err)
		}
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
		"":                                  "without an apply block",
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

// TestFullTable: a table that is full is named as the reason, none of the changes of that request is made, and the switch
// goes on.
func TestFullTable(t *testing.T) {
	m := machine(t, small)
	host := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, byte(i >> 8), byte(i)}) }
	routes := make([]Route, mostWays)
	for i := range routes {
		routes[i].To = host(i)
	}
	if err := m.ChangeRoutes(routes, nil); err != nil {
		t.Fatal(err)
	}
	err := m.ChangeRoutes([]Route{{To: host(mostWays)}, {To: host(0), Port: 3}}, nil)
	if err == nil || !strings.Contains(err.Error(), "a table is full") {
		t.Errorf("one more: %v", err)
	}
	for _, change := range []struct{ add, remove []Route }{{nil, routes[:1]}, {[]Route{{To: host(mostWays)}}, nil}} {
		if err := m.ChangeRoutes(change.add, change.remove); err != nil {
			t.Errorf("one more in the place of another: %v", err)
		}
	}
}

// TestChangesAfterOneThatFails: no entry is put in and no register written, and the next request is not concerned.
func TestChangesAfterOneThatFails(t *testing.T) {
	m := machine(t, small)
	route := Entry{Table: nodeControl + tableRoutes, Match: []uint64{1}, Action: nodeControl + actionVia,
		Args: []Arg{{"port", 1}, {"source", 2}, {"destination", 3}}}
	wrong := route
	wrong.Action = "fly"
	var values [1]uint64
	var r Request
	r.Write(regFull, 0, 1)
	r.Insert(route)
	r.Insert(wrong)
	r.Insert(route)
	if err := m.sw.Do(&r); err == nil || !strings.Contains(err.Error(), "fly") {
		t.Errorf("an action that is not there: %v", err)
	}
	r = Request{}
	r.Read(regFull, 0, values[:])
	if err := m.sw.Do(&r); err != nil || values[0] != 0 {
		t.Errorf("the register is %d, %v", values[0], err)
	}
	routes := make([]Route, mostWays) // all fit if the first route is not there
	for i := range routes {
		routes[i].To = netip.AddrFrom4([4]byte{10, 78, byte(i >> 8), byte(i)})
	}
	if err := m.ChangeRoutes(routes, nil); err != nil {
		t.Error(err)
	}
}

// TestWaysHaveRoom: addresses beyond the program's table are not given to it, because one full table would refuse the
// changes of all other ways, and addresses without a way give place to others.
func TestWaysHaveRoom(t *testing.T) {
	m := machine(t, small)
	w := ways{node: m.Node, ports: []string{"none"}}
	for i := range 2 * mostWays {
		w.wanted(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}))
	}
	last := netip.AddrFrom4([4]byte{198, 51, 100, 7})
	w.wanted(last)
	if _, ok := w.known[last]; !ok || len(w.known) != mostWays {
		t.Errorf("%d addresses are kept, the last: %v", len(w.known), ok)
	}
	for to := range w.known {
		w.known[to] = way{port: 1}
	}
	w.wanted(netip.AddrFrom4([4]byte{198, 51, 100, 8}))
	if len(w.known) != mostWays {
		t.Errorf("%d ways are kept", len(w.known))
	}
}
