package core

import (
	"errors"
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

// TestTurnsOfAWrite: a write whose outcome changes each time that it is tried ends, and nothing is applied.
func TestTurnsOfAWrite(t *testing.T) {
	g := served("k", generation(10, 0))
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "other"}}, If: []Cond{{Key: "other"}}})
	tried := 0
	for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
		for _, e := range effects {
			switch e := e.(type) {
			case Reply:
				if e.Failure != NotApplied || !errors.Is(e.Err, ErrTurns) || tried != maxTurns+1 {
					t.Errorf("%+v after %d turns", e, tried)
				}
				return
			case EtcdCall:
				switch {
				case e.Request.Txn == nil: // the session is alive
					g.Returned(e.ID, &Result{Held: true, Rev: 20, KVs: map[string]KV{SessionPrefix + "g.1": {Create: 1, Mod: 1}}})
				case e.Request.Part == Whole:
					g.Returned(e.ID, &Result{Err: errors.New("too many operations"), TooMany: true})
				case e.Request.Part == Outcome:
					g.Returned(e.ID, &Result{Held: true, Succeeded: tried%2 == 0, Rev: 20})
				default:
					if tried++; tried > 10*maxTurns {
						t.Fatal("the write does not end")
					}
					g.Returned(e.ID, &Result{Rev: 20})
				}
			}
		}
	}
	t.Error("the write has no answer")
}

// TestReadsBehindAWrite: the keys that a write may have written are read a round at a time.
func TestReadsBehindAWrite(t *testing.T) {
	g := served("k", generation(10, 0))
	for i := range 3 * maxRound {
		g.life.placed[fmt.Sprintf("key/%05d", i)] = generation(10, 0)
	}
	g.push.done = 1 << 40
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "other"}}, Spans: []Span{{"key/", "key0"}}})
	reads := 0
	for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
		now := 0
		for _, e := range effects {
			switch e := e.(type) {
			case ChainCall:
				g.Answered(e.ID, Answer{Stamp: 1})
			case EtcdCall:
				if e.Request.Txn == nil {
					now, reads = now+1, reads+1
				}
				g.Returned(e.ID, &Result{Held: true, Rev: 20})
			}
		}
		if now > 1 {
			t.Fatalf("%d rounds at a time", now)
		}
	}
	if reads != 3 {
		t.Errorf("%d rounds", reads)
	}
}
