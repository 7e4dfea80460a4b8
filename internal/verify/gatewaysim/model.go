package gatewaysim

import "github.com/netcraq/netcraq/internal/gateway/core"

// Shard is a model of a shard of the chain: it executes operations on its cells, one at a time.
type Shard struct {
	epoch    uint64
	revision int64 // 0: there is no revision object
	objects  map[string]*core.Object
	capacity int
	without  core.Rule
}

// NewShard makes a shard without objects. The epoch is another one whenever the shard lost its state.
func NewShard(epoch uint64, capacity int, without core.Rule) *Shard {
	return &Shard{epoch: epoch, objects: make(map[string]*core.Object), capacity: capacity, without: without}
}

// Epoch returns the shard's epoch.
func (s *Shard) Epoch() uint64 { return s.epoch }

// Do executes one operation.
func (s *Shard) Do(op *core.Op) core.Answer {
	c := core.Cell{Epoch: s.epoch, Object: s.objects[op.Key], Revision: s.revision}
	full := c.Object == nil && len(s.objects) >= s.capacity
	a, _ := c.Apply(op, s.without)
	switch {
	case full && op.Kind == core.Create && c.Object != nil:
		a.Status = core.Full
	case c.Object != nil:
		s.objects[op.Key] = c.Object
	default:
		delete(s.objects, op.Key)
	}
	s.revision = c.Revision
	return a
}
