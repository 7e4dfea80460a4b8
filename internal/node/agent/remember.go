package agent

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// A node that joins a shard again has deleted all its sessions (C8) and gets all those of its successor (C7). Most of
// them are the same. So the agent remembers the deleted ones, and sends a digest of each when it asks for a copy. The
// source answers which digests are its own, and sends only the entries of other sessions.

// remembered holds sessions that the node deleted, by shard.
type remembered struct {
	shards map[uint16][]dataplane.KeyedSession
	count  int
}

// maxRemembered bounds the sessions in memory, of some 60 bytes each. Those beyond it are copied.
const maxRemembered = 1 << 19

func newRemembered() remembered {
	return remembered{shards: make(map[uint16][]dataplane.KeyedSession)}
}

func (r *remembered) add(k chain.SessionKey, s chain.Session) {
	if r.count < maxRemembered {
		r.shards[k.Shard] = append(r.shards[k.Shard], dataplane.KeyedSession{Key: k, Session: s})
		r.count++
	}
}

// forget frees the remembered sessions of some shards.
func (r *remembered) forget(shards []uint16) {
	for _, shard := range shards {
		r.count -= len(r.shards[shard])
		delete(r.shards, shard)
	}
}

// replace replaces the remembered sessions of some shards.
func (r *remembered) replace(shards []uint16, by *remembered) {
	r.forget(shards)
	for _, shard := range shards {
		if entries := by.shards[shard]; len(entries) > 0 && r.count+len(entries) <= maxRemembered {
			r.shards[shard] = entries
			r.count += len(entries)
		}
	}
}

// of returns the remembered sessions of some shards.
func (r *remembered) of(shards []uint16) (all []dataplane.KeyedSession) {
	for _, shard := range shards {
		all = append(all, r.shards[shard]...)
	}
	return all
}

// eachSession calls visit with the entries of each session, in the order of their shards. An export may visit an entry
// twice: the newer one counts.
func eachSession(entries []dataplane.KeyedSession, visit func([]dataplane.KeyedSession) error) error {
	slices.SortFunc(entries, func(a, b dataplane.KeyedSession) int {
		return cmp.Or(cmp.Compare(a.Key.Session, b.Key.Session), cmp.Compare(a.Key.Shard, b.Key.Shard),
			cmp.Compare(b.Session.Seq, a.Session.Seq))
	})
	entries = slices.CompactFunc(entries, func(a, b dataplane.KeyedSession) bool { return a.Key == b.Key })
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].Key.Session == entries[0].Key.Session {
			n++
		}
		if err := visit(entries[:n:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// digestOf returns the digest of a session: of all that would be sent of it.
func digestOf(entries []dataplane.KeyedSession) (*agentv1.SessionDigest, error) {
	var all agentv1.ExportResponse
	for i := range entries {
		all.Sessions = append(all.Sessions, exportedSession(entries[i].Key, &entries[i].Session))
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&all)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return &agentv1.SessionDigest{Session: entries[0].Key.Session, Digest: sum[:digestBytes]}, nil
}

const digestBytes = 16

// errDigest refuses a request whose digests cannot be compared.
var errDigest = errors.New("a digest of a session must have 16 bytes")
