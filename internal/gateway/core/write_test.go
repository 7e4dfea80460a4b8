package core

import (
	"errors"
	"fmt"
	"testing"
)

// TestWriteOfManyPlacedKeys: however many placed keys a transaction may write, it reads few of them itself. A transaction that does
// nothing but delete reads none, since its keys are absent afterwards.
func TestWriteOfManyPlacedKeys(t *testing.T) {
	for _, keys := range []int{1, maxInside, maxInside + 1, 10_000} {
		writeManyPlacedKeys(t, keys, false)
		writeManyPlacedKeys(t, keys, true)
	}
}

func writeManyPlacedKeys(t *testing.T, keys int, erases bool) {
	t.Helper()
	g := served("k", instanceOf(10, 0))
	txn := &Txn{Raw: "a client's", Spans: []Span{{"key/", "key0"}}, Erases: erases}
	for i := range keys {
		g.life.placed[fmt.Sprintf("key/%05d", i)] = instanceOf(10, 0)
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
					g.Answered(e.ID, Answer{Ticket: 1})
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
	inside, behind := 0, 0
	if keys <= maxInside && !erases {
		inside = keys
	} else if !erases {
		behind = keys
	}
	if intents != keys || len(call.Request.Get) != inside || reads != behind || resolved != keys {
		t.Errorf("%d keys, erases %v: %d INTENTs, %d reads in the transaction, %d behind it, %d RESOLVEs", keys, erases, intents,
			len(call.Request.Get), reads, resolved)
	}
}

// TestTurnsOfAWrite: a write whose outcome changes each time that it is tried ends, and nothing is applied.
func TestTurnsOfAWrite(t *testing.T) {
	g := served("k", instanceOf(10, 0))
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "other"}}, If: []Cond{{Key: "other"}}})
	tried := 0
	for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
		for _, e := range effects {
			switch e := e.(type) {
			case Reply:
				if e.Failure != NotApplied || !errors.Is(e.Err, ErrTurns) || tried != MaxTurns+1 {
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
					if tried++; tried > 10*MaxTurns {
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
	g := served("k", instanceOf(10, 0))
	for i := range 3 * maxRound {
		g.life.placed[fmt.Sprintf("key/%05d", i)] = instanceOf(10, 0)
	}
	g.push.done = 1 << 40
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "other"}}, Spans: []Span{{"key/", "key0"}}})
	reads := 0
	for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
		now := 0
		for _, e := range effects {
			switch e := e.(type) {
			case ChainCall:
				g.Answered(e.ID, Answer{Ticket: 1})
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

// TestWriteOfAKeyPlacedAnew: a write waits for the INTENT of an object, and the chain does not answer. Meanwhile the key is
// taken out of the directory, and placed again before this gateway has seen that the directory was empty. The write goes on,
// for the gateway that placed the key waits until it has ended.
func TestWriteOfAKeyPlacedAnew(t *testing.T) {
	const key = "k"
	old, anew := instanceOf(10, 0), instanceOf(12, 1)
	for name, changes := range map[string][]Change{
		"removed": {{Rev: 11, Key: key}, counted(11, 0)},
		"removed and placed": {
			{Rev: 11, Key: key}, counted(11, 0), {Rev: 12, Key: key, Value: entryOf(anew, "h.1")}, counted(12, 1),
		},
		"placed over the other entry": {{Rev: 12, Key: key, Value: entryOf(anew, "h.1")}, counted(12, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			g := served(key, old)
			g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: key}}})
			if c := only[ChainCall](t, g.Effects()); c.Op.Kind != SetBit || c.Op.Instance != old {
				t.Fatalf("%+v", c.Op)
			}
			g.DirectoryChanged(11, []Change{{Rev: 11, Count: true, Value: closedCount + " "}})
			for _, e := range g.Effects() {
				if c, ok := e.(EtcdCall); ok && c.Request.Txn != nil {
					t.Fatal("the write goes on, and others may wait for its INTENT")
				}
			}
			for i := range changes {
				changes[i].Rev += 2
			}
			g.DirectoryChanged(15, changes)
			writes := 0
			for _, e := range g.Effects() {
				if c, ok := e.(EtcdCall); ok && c.Request.Txn != nil {
					writes++
				}
			}
			if writes != 1 {
				t.Errorf("%d requests with the write", writes)
			}
		})
	}
}

// TestWriteDuringAPlacement: etcd has executed a write of a key that was not placed, and the chain takes no revision. Another
// gateway has placed the key meanwhile. This gateway follows the directory: otherwise the other one could not load the key, and
// this one could not take it out.
func TestWriteDuringAPlacement(t *testing.T) {
	g := served("other", instanceOf(10, 0))
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "k"}}})
	write := only[EtcdCall](t, g.Effects())
	g.DirectoryChanged(19, []Change{{Rev: 19, Key: "k", Value: entryOf(instanceOf(18, 1), "h.1")}, counted(19, 2)})
	acknowledged := func() (highest string) {
		for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
			for _, e := range effects {
				if c, ok := e.(EtcdCall); ok && len(c.Request.Put) == 1 && c.Request.Put[0].Key == g.names.ack+"g.1" {
					highest = c.Request.Put[0].Value
					g.Returned(c.ID, &Result{Held: true, Rev: 19})
				}
			}
		}
		return highest
	}
	placed := fmt.Sprintf("%020d", 19)
	if acknowledged() >= placed {
		t.Fatal("the write may be executed later, and sets no bit")
	}
	g.Returned(write.ID, &Result{Held: true, Rev: 20})
	if acknowledged() < placed {
		t.Error("the change of the directory is not acknowledged")
	}
}

// TestRefusedWriteLeavesTheBit: a session that ended had the same bit, and set it for a write of unknown outcome. A write of this session
// that etcd refuses reads nothing, so it does not clear the bit. A clean-up does, with what it reads.
func TestRefusedWriteLeavesTheBit(t *testing.T) {
	const key = "k"
	instance := instanceOf(10, 0)
	g := served(key, instance)
	g.push.done = 1 << 40
	g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: key}}})
	intent := only[ChainCall](t, g.Effects())
	g.Answered(intent.ID, Answer{Ticket: 7})
	write := only[EtcdCall](t, g.Effects())
	g.Returned(write.ID, &Result{Err: errors.New("no such lease")})
	cleared := 0
	for range 3 {
		for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
			for _, e := range effects {
				switch e := e.(type) {
				case ChainCall:
					a := Answer{Object: Object{Instance: instance, Bits: 1, Entry: Entry{State: Value, Rev: 12}}}
					a.Object.Tickets[0] = 7
					if e.Op.Kind == Resolve && e.Op.Clear {
						if cleared++; e.Op.Entry.Rev != 15 {
							t.Fatalf("the bit is cleared with %+v", e.Op.Entry)
						}
					}
					g.Answered(e.ID, a)
				case EtcdCall:
					g.Returned(e.ID, &Result{Held: true, Rev: 20, KVs: map[string]KV{
						SessionPrefix + "g.1": {Create: 1, Mod: 1}, "bit/00": {Value: "g.1"}, key: {Create: 11, Mod: 15},
					}})
				}
			}
		}
		g.Tick()
	}
	if cleared == 0 {
		t.Error("the bit stays")
	}
}
