package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/wire"
)

// ErrNoRoom says that the cluster has no room for the objects of a snapshot.
var ErrNoRoom = errors.New("the cluster has no room for this snapshot")

// needs is the room that a snapshot needs in a cluster.
type needs struct {
	options *RestoreOptions
	cluster *client.Map
	objects []uint64 // of each shard
	longest int      // value
	highest uint64   // version
	read    uint64   // objects
}

func newNeeds(o *RestoreOptions) *needs {
	m := o.Client.Map()
	return &needs{options: o, cluster: m, objects: make([]uint64, m.Shards())}
}

// add counts an object.
func (n *needs) add(o *Object) error {
	n.objects[o.Key.Shard(len(n.objects))]++
	n.longest, n.highest = max(n.longest, len(o.Value)), max(n.highest, o.Version)
	if n.read++; n.read%tellEvery == 0 {
		n.tell("verifying", n.read)
	}
	return nil
}

func (n *needs) tell(stage string, objects uint64) {
	if n.options.Progress != nil {
		n.options.Progress(Progress{Stage: stage, Done: objects, Objects: objects})
	}
}

// check asks every node that will store something whether it can. If it seems that one has not enough room, it counts
// how many of the keys are there already, and take none.
func (n *needs) check(ctx context.Context, file *os.File) error {
	for shard, objects := range n.objects {
		if c := n.cluster.Chain(uint16(shard)); objects > 0 && (c.Lost || len(c.Members) == 0) {
			return fmt.Errorf("no node serves shard %d", shard)
		}
	}
	short, err := n.short(ctx, n.objects)
	if err != nil || short == nil {
		return err
	}
	missing, err := n.missing(ctx, file)
	if err != nil {
		return err
	}
	if short, err = n.short(ctx, missing); err != nil {
		return err
	}
	return short
}

// short asks the nodes, and returns which of them is too small for so many new objects in each shard. Values that are
// too long are an error in any case.
func (n *needs) short(ctx context.Context, objects []uint64) (short, err error) {
	wanted := make([]uint64, len(n.cluster.Nodes))
	for shard, count := range objects {
		for _, member := range n.cluster.Chain(uint16(shard)).Members {
			wanted[member] += count
		}
	}
	for i, node := range n.cluster.Nodes {
		if wanted[i] == 0 {
			continue
		}
		info, usage, err := ask(ctx, n.options.Agents, node)
		if err != nil {
			return nil, fmt.Errorf("asking for room: %w", err)
		}
		if n.longest > int(info.GetCellBytes()) {
			return nil, fmt.Errorf("%w: its longest value has %d bytes, and node %s stores at most %d", ErrNoRoom, n.longest,
				node.Name, info.GetCellBytes())
		}
		if free := info.GetMaxObjects() - min(usage.GetObjects(), info.GetMaxObjects()); wanted[i] > free {
			short = fmt.Errorf("%w: node %s would get %d more objects, and has room for %d", ErrNoRoom, node.Name, wanted[i], free)
		}
	}
	return short, nil
}

// missing counts, by shard, the keys of the snapshot that the cluster does not know yet.
func (n *needs) missing(ctx context.Context, file *os.File) ([]uint64, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	c := census{missing: make([]uint64, len(n.objects))}
	read := uint64(0)
	_, _, err := Verify(contextReader{ctx, file}, func(o *Object) error {
		if read++; read%tellEvery == 0 {
			n.tell("counting new keys", read)
		}
		key := o.Key
		c.open.Add(1)
		n.options.Client.Start(ctx, client.GetHashedOp(key), func(r client.Result, err error) { c.count(key, r, err) })
		return c.error()
	})
	c.open.Wait()
	return c.missing, errors.Join(err, c.error())
}

// census counts keys that are read, many at a time.
type census struct {
	open sync.WaitGroup

	mu      sync.Mutex
	missing []uint64
	failed  error // the first
}

// count takes note of one. A deleted key takes a place too.
func (c *census) count(key wire.Key, r client.Result, err error) {
	defer c.open.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, client.ErrNotFound):
		if r.Version == 0 {
			c.missing[key.Shard(len(c.missing))]++
		}
	case err != nil && c.failed == nil:
		c.failed = err
	}
}

func (c *census) error() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}
