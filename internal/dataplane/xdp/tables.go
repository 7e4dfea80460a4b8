package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Object implements [dataplane.Plane].
func (p *Plane) Object(key wire.Key) (chain.Object, bool, error) {
	return p.objects.object(key, recordBytes(p.info.Options))
}

// Dirty implements [dataplane.Plane].
func (p *Plane) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	found, err := p.walk("nq_walk_dirty", p.objects.Objects, new(shardSet))
	if err != nil {
		return nil, err
	}
	var out []dataplane.KeyedObject
	for _, b := range found {
		k := keyOf(b[:])
		if len(out) == limit || p.shards.commits(k.Shard(p.info.Options.Shards)) {
			continue
		}
		o, found, err := p.Object(k)
		if err != nil {
			return nil, err
		}
		if found && !o.Clean() {
			out = append(out, dataplane.KeyedObject{Key: k, Object: o})
		}
	}
	return out, nil
}

// Sessions implements [dataplane.Plane].
func (p *Plane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	keys, err := p.laneKeys(allShards())
	if err != nil {
		return err
	}
	errEnough := errors.New("enough")
	err = p.objects.eachLane(keys, func(k chain.SessionKey, s chain.Session) error {
		if !visit(k, s) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// eachLane visits copies of the lanes that are there of those named.
func (o *objects) eachLane(keys []nqLaneKey, visit func(chain.SessionKey, chain.Session) error) error {
	for _, k := range keys {
		lane, found, err := o.lane(k)
		if err == nil && found {
			err = visit(k.sessionKey(), lane.session())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeCopies is how many copies in a row with the same even lock word prove that the one in the middle is whole: no
// packet wrote between the first copy and the last. Two prove nothing, for the kernel may copy the end of an entry
// before its lock word.
const wholeCopies = 3

// lane copies a lane.
func (o *objects) lane(k nqLaneKey) (nqLane, bool, error) {
	same := 0
	previous := nqLane{Lock: 1}
	for range copyTries {
		var next nqLane
		err := o.Lanes.Lookup(k, &next)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return next, false, nil
		}
		if err != nil {
			return next, false, fmt.Errorf("reading sessions: %w", err)
		}
		if next.Lock&1 == 1 || next.Lock != previous.Lock {
			same = 0
		}
		if same++; same == wholeCopies {
			return previous, true, nil
		}
		previous = next
	}
	return previous, false, fmt.Errorf("session %x is written faster than it can be read", k.Session)
}

// DropSession implements [dataplane.Plane].
func (p *Plane) DropSession(k chain.SessionKey, seq uint64) error {
	data, err := appendNative(nil, nqDropRequest{Key: laneKeyOf(k), Seq: seq})
	if err != nil {
		return err
	}
	p.walking.Lock()
	defer p.walking.Unlock()
	if _, err := p.objects.DropLane.Run(&ebpf.RunOptions{Data: data}); err != nil {
		return fmt.Errorf("dropping a session: %w", err)
	}
	return nil
}
