package core

import "testing"

// TestProof: a session ends if its key is gone or was made anew, or if its bit is another's. An acknowledgement that is gone is
// written again. What began after the keys were read does not matter.
func TestProof(t *testing.T) {
	const session, ack, bit, lease = SessionPrefix + "g.1", "ack/g.1", "bit/00", "g.1"
	good := func() map[string]KV {
		return map[string]KV{session: {Create: 1}, ack: {Value: ackOf(9)}, bit: {Value: lease, Create: 2}}
	}
	for name, c := range map[string]struct {
		change func(map[string]KV)
		alive  bool
		again  bool // the acknowledgement is written
	}{
		"all there":               {func(map[string]KV) {}, true, false},
		"session gone":            {func(kvs map[string]KV) { delete(kvs, session) }, false, false},
		"session made anew":       {func(kvs map[string]KV) { kvs[session] = KV{Create: 8} }, false, false},
		"bit gone":                {func(kvs map[string]KV) { delete(kvs, bit) }, false, false},
		"bit taken":               {func(kvs map[string]KV) { kvs[bit] = KV{Value: "h.1", Create: 8} }, false, false},
		"bit written again, late": {func(kvs map[string]KV) { kvs[bit] = KV{Value: lease, Create: 8} }, false, false},
		"acknowledgement gone":    {func(kvs map[string]KV) { delete(kvs, ack) }, true, true},
		"acknowledgement too old": {func(kvs map[string]KV) { kvs[ack] = KV{Value: ackOf(8)} }, true, true},
		"acknowledgement newer":   {func(kvs map[string]KV) { kvs[ack] = KV{Value: ackOf(10)} }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := served("k", instanceOf(10, 0))
			g.life.acked, g.life.follows, g.life.foreign, g.life.bitCreate = 9, 9, 9, 2
			p, kvs := g.Prove(lease), good()
			if len(p.Keys) != len(kvs) {
				t.Fatalf("%v are read", p.Keys)
			}
			c.change(kvs)
			alive := g.Proved(p, &Result{Rev: 20, KVs: kvs})
			again := false
			for _, e := range g.Effects() {
				call, ok := e.(EtcdCall)
				again = again || ok && len(call.Request.Put) == 1 && call.Request.Put[0].Key == ack
			}
			if alive != c.alive || again != c.again || (g.readable("k") != 0) != c.alive {
				t.Errorf("alive %v, acknowledged again %v, readable %v", alive, again, g.readable("k") != 0)
			}
		})
	}
	g := served("k", instanceOf(10, 0))
	g.life.serving = false
	p := g.Prove(lease)
	g.life.serving = true
	if !g.Proved(p, &Result{Rev: 20, KVs: map[string]KV{session: {Create: 1}}}) {
		t.Error("the bit was taken after the proof began, and the session ends for want of it")
	}
}
