package sim

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// known are seeds that show a kind of violation, one for each that the papers' protocols have.
var known = []struct {
	protocol    Protocol
	kind        Kind
	seed        uint64
	ops, faults int // upper bounds after shrinking
}{
	{NetChain, LostWrite, 3, 2, 1},
	{NetChain, AppliedTwice, 6, 2, 1},
	{NetChain, StaleRead, 14, 4, 2},
	{NetChain, Wrap, 16, 1, 1},
	{NetChain32, LostWrite, 3, 2, 1},
	{NetCRAQPaper, LostWrite, 3, 2, 1},
	{NetCRAQPaper, AppliedTwice, 6, 2, 1},
	{NetCRAQPaper, StaleRead, 4, 2, 1},
	{NetCRAQPaper, Stuck, 97, 7, 7},
	{NetCRAQPaper, Disorder, 18, 3, 2},
}

// TestKnownSeeds: each seed shows its kind, shrinks to a few operations and faults, and this
// project's protocol has nothing wrong with it, neither in the whole run nor in the short one.
func TestKnownSeeds(t *testing.T) {
	r := NewRunner()
	for _, k := range known {
		e, err := r.Counterexample(Draw(k.protocol, k.seed), k.kind)
		switch {
		case err != nil:
			t.Fatal(err)
		case e == nil:
			t.Errorf("seed %d does not show %q in %s", k.seed, k.kind.Title(), k.protocol)
			continue
		case e.OursWhole != nil || e.OursShort != nil:
			t.Errorf("seed %d: this project's protocol: %s", k.seed, e.Ours())
		case len(e.Config.Ops) > k.ops || len(e.Config.Faults) > k.faults:
			t.Errorf("seed %d: %d operations and %d faults are left:\n%v", k.seed, len(e.Config.Ops),
				len(e.Config.Faults), e)
		}
		if text := e.String(); !strings.Contains(text, e.Command()) || !strings.Contains(text, e.Violation.Why) {
			t.Errorf("seed %d: the counterexample says neither why nor how to see it again:\n%s", k.seed, text)
		}
	}
}

// TestSeedsRepeat checks that a seed gives one run and one counterexample, independent of earlier
// runs.
func TestSeedsRepeat(t *testing.T) {
	used := NewRunner()
	for _, k := range known {
		if k.kind == Wrap { // the same, and slow: a new runner has many writes to make
			continue
		}
		c := Draw(k.protocol, k.seed)
		first, err := used.Trace(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := NewRunner().Trace(Draw(k.protocol, k.seed))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(first.Trace, again.Trace) {
			t.Errorf("%s, seed %d: two runs differ", k.protocol, k.seed)
		}
		one, err := used.Counterexample(c, k.kind)
		if err != nil {
			t.Fatal(err)
		}
		two, err := NewRunner().Counterexample(c, k.kind)
		if err != nil {
			t.Fatal(err)
		}
		if one.String() != two.String() {
			t.Errorf("%s, seed %d: two counterexamples differ:\n%v\n%v", k.protocol, k.seed, one, two)
		}
	}
}

// TestWideNumbersDoNotWrap checks that writes lost at the wrap of 16 bits survive with 32 bits
// under the same operations and faults.
func TestWideNumbersDoNotWrap(t *testing.T) {
	r := NewRunner()
	e, err := r.Counterexample(Draw(NetChain, 16), Wrap)
	if err != nil || e == nil {
		t.Fatal(e, err)
	}
	c := e.Config
	c.Protocol = NetChain32
	if _, v, err := r.judged(c); err != nil || len(v.Violations) > 0 || c.Before == 0 {
		t.Errorf("%+v, %+v, %v", c, v, err)
	}
}

// TestWeatherIsTheSame: a seed's workload and the fate of the packets that clients send first are
// the same for all protocols.
func TestWeatherIsTheSame(t *testing.T) {
	for seed := range uint64(20) {
		var ops [][]Op
		for _, p := range Protocols() {
			c := Draw(p, seed)
			ops = append(ops, c.Ops)
			if !reflect.DeepEqual(ops[0], c.Ops) {
				t.Errorf("seed %d: %s has a workload of its own", seed, p)
			}
		}
	}
}

// TestWithoutFaults: the papers' protocols work as long as nothing is lost, late or repeated, and 16
// bits wrap unnoticed then.
func TestWithoutFaults(t *testing.T) {
	r := NewRunner()
	for _, p := range Protocols() {
		for seed := range uint64(50) {
			c := Draw(p, seed)
			c.Weather = Weather{}
			_, v, err := r.judged(c)
			if err != nil || len(v.Violations) > 0 {
				t.Errorf("%s, seed %d without faults: %+v, %v", p, seed, v, err)
			}
		}
	}
}

// TestOursPasses: this project's protocol in the weather of many seeds.
func TestOursPasses(t *testing.T) {
	total, err := NewRunner().Many(t.Context(), Options{Protocol: Ours, First: 1, Seeds: 300, Jobs: 2})
	if err != nil || total.Violations != 0 || total.Undecided != 0 || total.Seeds != 300 || total.Faults[Lose] == 0 ||
		total.Faults[Repeat] == 0 ||
		total.Faults[Delay] == 0 {
		t.Errorf("%+v, %v", total, err)
	}
}

// TestLosses: there is a row for each protocol and kind, with an example where something was seen.
func TestLosses(t *testing.T) {
	rows, err := Losses(t.Context(), 1, 30, 2)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[Protocol]int)
	for _, row := range rows {
		if (row.Shown > 0) != (row.Example != nil) || row.Seeds != 30 || row.Ours != 0 {
			t.Errorf("%+v", row)
		}
		seen[row.Protocol] += row.Shown
	}
	if len(rows) != 3*len(Kinds()) || seen[NetChain] == 0 || seen[NetChain32] == 0 || seen[NetCRAQPaper] == 0 {
		t.Errorf("%d rows, violations %v", len(rows), seen)
	}
}

func TestWriteTrace(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTrace(&out, []Line{{At: 1_500_000, Text: "here"}}); err != nil ||
		out.String() != "      1.5 ms  here\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
