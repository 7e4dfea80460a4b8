package agent

import (
	"bytes"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

func entry(session uint64, shard uint16, seq uint64) dataplane.KeyedSession {
	return dataplane.KeyedSession{
		Key: chain.SessionKey{Session: session, Shard: shard}, Session: chain.Session{Seq: seq, Version: 2, Op: wire.OpPut},
	}
}

// TestDigestOfASession: neither the order nor a second visit of an entry matters, and every field of every entry does.
func TestDigestOfASession(t *testing.T) {
	digest := func(entries ...dataplane.KeyedSession) (out []byte) {
		err := eachSession(entries, func(entries []dataplane.KeyedSession) error {
			d, err := digestOf(entries)
			out = append(out, d.GetDigest()...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := digest(entry(1, 2, 3), entry(1, 5, 7))
	if same := digest(entry(1, 5, 6), entry(1, 5, 7), entry(1, 2, 3)); !bytes.Equal(same, want) {
		t.Errorf("the same entries in another order, one of them twice, have digest %x, want %x", same, want)
	}
	change := func(change func(*dataplane.KeyedSession)) dataplane.KeyedSession {
		e := entry(1, 5, 7)
		change(&e)
		return e
	}
	for i, other := range []dataplane.KeyedSession{
		change(func(e *dataplane.KeyedSession) { e.Key.Shard++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.Seq++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.Version++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.Result++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.KeyLo++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.Op++ }),
		change(func(e *dataplane.KeyedSession) { e.Session.Status++ }),
	} {
		if bytes.Equal(digest(entry(1, 2, 3), other), want) {
			t.Errorf("change %d leaves the digest", i)
		}
	}
	if bytes.Equal(digest(entry(1, 2, 3)), want) {
		t.Error("an entry less leaves the digest")
	}
}

// TestRememberedIsBounded: beyond the limit sessions are forgotten, and forgetting makes room.
func TestRememberedIsBounded(t *testing.T) {
	r := newRemembered()
	for session := range uint64(maxRemembered) {
		e := entry(session, uint16(session%2), 1)
		r.add(e.Key, e.Session)
	}
	more := newRemembered()
	e := entry(7, 3, 1)
	more.add(e.Key, e.Session)
	r.replace([]uint16{3}, &more)
	if r.count != maxRemembered || len(r.of([]uint16{3})) != 0 {
		t.Errorf("%d sessions are remembered, %d of the last shard", r.count, len(r.of([]uint16{3})))
	}
	r.forget([]uint16{0})
	r.replace([]uint16{3}, &more)
	if r.count != maxRemembered/2+1 || len(r.of([]uint16{3})) != 1 {
		t.Errorf("%d sessions are remembered, %d of the last shard", r.count, len(r.of([]uint16{3})))
	}
}
