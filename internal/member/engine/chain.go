package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/wire"
)

const (
	// readWithin and writeWithin bound calls of the chain.
	readWithin  = 150 * time.Millisecond
	writeWithin = 400 * time.Millisecond
)

// key is that of a member's object in the chain.
func (e *Engine) key(id uint64) string {
	return fmt.Sprintf("member/%x/%x", uint64(e.o.Server.Cluster().ID()), id)
}

// readObjects reads objects, from the memory of a node on this machine as far as that may answer, the others in one bundle
// through the network.
func (e *Engine) readObjects(a core.ReadObjects) {
	found, have := make([]core.Found, len(a.Members)), make([]bool, len(a.Members))
	keys, hashed := e.keysOf(a.Members)
	e.readNearby(hashed, found, have)
	ok := e.readFar(keys, found, have)
	e.do(func(now int64) { e.machine.Objects(now, a.Call, found, ok) })
}

// keys are those of some members' objects.
type keys struct {
	members []uint64
	names   []string
	hashed  []wire.Key
}

// keysOf returns the keys of members' objects. Most bundles are for the same members.
func (e *Engine) keysOf(members []uint64) ([]string, []wire.Key) {
	k := e.keys.Load()
	if k == nil || !slices.Equal(k.members, members) {
		k = &keys{members: slices.Clone(members)}
		for _, id := range members {
			name := e.key(id)
			hashed, _ := wire.HashKey([]byte(name)) // fails for keys that are too long
			k.names, k.hashed = append(k.names, name), append(k.hashed, hashed)
		}
		e.keys.Store(k)
	}
	return k.names, k.hashed
}

func (e *Engine) readNearby(hashed []wire.Key, found []core.Found, have []bool) {
	if e.o.Nearby == nil {
		return
	}
	e.o.Nearby.Read(hashed, func(i int, version uint64, epoch uint32, value []byte) {
		have[i] = true
		e.nearby.Add(1)
		found[i] = core.Found{Exists: true, Version: version, Epoch: uint64(epoch), Value: append([]byte(nil), value...)}
	})
}

// readFar reads what is missing, and reports whether nothing is any more.
func (e *Engine) readFar(keys []string, found []core.Found, have []bool) bool {
	var missing []string
	var at []int
	for i := range keys {
		if !have[i] {
			missing, at = append(missing, keys[i]), append(at, i)
		}
	}
	if len(missing) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(e.ctx, readWithin)
	defer cancel()
	e.far.Add(uint64(len(missing)))
	for i, o := range e.o.Chain.GetMany(ctx, missing) {
		if o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) {
			return false
		}
		found[at[i]] = core.Found{Exists: o.Err == nil, Version: o.Version, Epoch: uint64(o.Epoch), Value: o.Value}
	}
	return true
}

// writeObject replaces the own object.
func (e *Engine) writeObject(a core.WriteObject) {
	ctx, cancel := context.WithTimeout(e.ctx, writeWithin)
	defer cancel()
	op := client.CASOp(e.key(uint64(e.o.Server.MemberID())), a.Version, a.Object.Encode()).InEpoch(uint32(a.Epoch))
	o := e.o.Chain.Do(ctx, []client.Op{op})[0]
	outcome := outcomeOf(o.Err)
	if outcome == core.Done {
		e.pushes.Add(1)
	}
	e.do(func(now int64) { e.machine.Written(now, a.Call, outcome, o.Version) })
}

// outcomeOf says what the error of a write means for the object.
func outcomeOf(err error) core.Outcome {
	switch {
	case err == nil:
		return core.Done
	case errors.Is(err, client.ErrOutcomeUnknown):
		return core.Unknown
	case errors.Is(err, client.ErrCASFailed), errors.Is(err, client.ErrOtherEpoch), errors.Is(err, client.ErrFull):
		return core.Refused
	}
	return core.Unknown
}
