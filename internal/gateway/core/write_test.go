package core

import (
	"fmt"
	"testing"
)

// TestWriteOfManyPlacedKeys: however many placed keys a transaction may write, it reads few of them itself. A transaction that does
// nothing but delete reads none, since its keys are absent afterwards.
func TestWriteOfManyPlacedKeys(t *testing.T) {
	const keys = 10_000
	for _, erases := range []bool{false, true} {
		g := served("k", generation(10, 0))
		txn := &Txn{Raw: "a client's", Spans: []Span{{"key/", "key0"}}, Erases: erases}
		for i := range keys {
			g.life.placed[fmt.Sprintf("key/%05d", i)] = generation(10, 0)
		}
		g.push.done = 1 << 40
		g.Txn(1, txn)
		var call EtcdCall
		intents, reads, resolved := 0, 0, 0
		for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
			for _, e := range effects {
				switch e := e.(type) {
				case ChainCall:
					if e.Op.Kind == SetBit {
						intents++
						g.Answered(e.ID, Answer{Stamp: 1})
					} else if e.Op.Kind == Resolve && e.Op.Clear && e.Op.Entry.State == Absent && e.Op.Entry.Rev >= 20 {
						resolved++
					}
				case EtcdCall:
					if e.Request.Txn != nil {
						call = e
						g.Returned(e.ID, &Result{Held: true, Rev: 20})
						continue
					}
					if len(e.Request.Get) > maxRound {
						t.Fatalf("%d keys in one request", len(e.Request.Get))
					}
					reads += len(e.Request.Get)
					g.Returned(e.ID, &Result{Held: true, Rev: 21})
				}
			}
		}
		want := keys
		if erases {
			want = 0
		}
		if intents != keys || len(call.Request.Get) > maxInside || reads != want || resolved != keys {
			t.Errorf("erases %v: %d INTENTs, %d reads in the transaction, %d behind it, %d RESOLVEs", erases, intents,
				len(call.Request.Get), reads, resolved)
		}
	}
}
