package core

import "testing"

// TestOnePushAtATime: what is to be revealed while a push is under way waits for the next one, which carries the newest.
func TestOnePushAtATime(t *testing.T) {
	g := served("k", instanceOf(10, 0))
	var pushes []ChainCall
	push := func() {
		for _, e := range g.Effects() {
			if call, ok := e.(ChainCall); ok && call.Op.Kind == Max {
				pushes = append(pushes, call)
			}
		}
	}
	for id, rev := range []int64{30, 31, 33, 32} {
		g.Reveal(uint64(id), rev)
		push()
	}
	if len(pushes) != 1 || pushes[0].Op.Rev != 30 {
		t.Fatalf("%+v, want one push of 30", pushes)
	}
	g.Answered(pushes[0].ID, Answer{Rev: 30})
	if push(); len(pushes) != 2 || pushes[1].Op.Rev != 33 {
		t.Fatalf("%+v, want one more of 33", pushes[1:])
	}
}

// TestNothingPlaced: a gateway that finds the directory empty becomes free, and one that finds an entry does not.
func TestNothingPlaced(t *testing.T) {
	for _, empty := range []bool{true, false} {
		g := served("k", instanceOf(10, 0))
		delete(g.life.placed, "k")
		g.Rest()
		kvs := map[string]KV{SessionPrefix + "g.1": {Create: 1, Mod: 1}}
		kvs[g.names.count] = KV{Value: CountOf(0, "")}
		if !empty {
			kvs[g.names.count] = KV{Value: CountOf(1, "")}
			kvs[g.names.directory+"k"] = KV{Value: entryOf(instanceOf(10, 0), "h.1")}
		}
		for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
			for _, e := range effects {
				if call, ok := e.(EtcdCall); ok {
					g.Returned(call.ID, &Result{Held: true, Rev: 20, KVs: kvs})
				}
			}
		}
		if g.Free() != empty {
			t.Errorf("free: %v, directory empty: %v", g.Free(), empty)
		}
	}
}

// TestBitsAreCleanedUp: a write without a known outcome leaves its bits to a clean-up, if its key is still placed as it was.
func TestBitsAreCleanedUp(t *testing.T) {
	then, later := instanceOf(10, 0), instanceOf(11, 0)
	for _, now := range []int64{then, later} {
		g := served("k", now)
		o := &own{instance: now}
		g.life.keys["k"] = o
		g.taint(&write{
			life: g.life, keys: []string{"k"}, bits: map[string]bool{"k": true}, instances: map[string]int64{"k": then},
		})
		if same := now == then; g.life.suspects["k"] != same || (o.tainted == 1) != same {
			t.Errorf("suspect: %v, %d bits; placed as it was: %v", g.life.suspects["k"], o.tainted, same)
		}
	}
}
