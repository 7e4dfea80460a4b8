package driver_test

import (
	"testing"
)

// All gateways are killed and the chain loses the log: every acknowledged batch is there again, once and in its order.
func TestNothingLost(t *testing.T) {
	w := newWorld(t, 64)
	names := []string{"a", "b", "c"}
	era := uint64(0)
	for round := range 3 {
		var all []*gateway
		for _, name := range names {
			all = append(all, w.start(name))
		}
		for _, g := range all {
			w.follows(g, era, 3)
		}
		w.write(all[round], 40)
		for _, g := range all {
			w.has(g)
			era = w.follows(g, 0, 3)
		}
		for _, name := range names {
			w.kill(name)
		}
		if err := w.log.Remove(w.ctx, era); err != nil {
			t.Fatal(err)
		}
	}
}

// A gateway that was away while the ring went round gets the state from another one; so does one whose disk was emptied,
// and it has a place in the next era.
func TestBehind(t *testing.T) {
	w := newWorld(t, 16)
	a, b := w.start("a"), w.start("b")
	w.start("c")
	era := w.follows(a, 0, 3)
	w.write(a, 5)
	w.kill("c")
	w.write(b, 60)
	c := w.start("c")
	w.has(c)
	w.kill("c")
	w.empty("c")
	c = w.start("c")
	w.follows(c, era, 3)
	w.kill("a")
	w.write(c, 5)
	w.has(b)
	w.has(c)
}
