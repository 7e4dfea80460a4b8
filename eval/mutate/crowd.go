package mutate

import (
	"cmp"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// crowds are the numbers of other objects that lie before those of a vector. Programs look at three cells one by one, and
// at the others in a loop.
var crowds = []int{0, 1, 2, 3, mostOthers}

const mostOthers = 5

// crowd is a node whose table has been used: all keys have one place, other objects lie before those of the vector, and
// free cells still have its keys. State leaves the others out, and there is as much room as without them.
type crowd struct {
	*harness.XDP
	keys   []wire.Key // of the vector
	others []wire.Key
}

// newCrowd makes the node for a vector, with so many other objects.
func newCrowd(node *harness.XDP, c *conformance.Case, others int) *crowd {
	n := &crowd{XDP: node, keys: keysOf(c)}
	for i := range others {
		key := wire.Key{Hi: 1, Lo: 1 << 32}
		if len(n.keys) > 0 {
			key = n.keys[i%len(n.keys)]
		}
		if i%2 == 0 { // half of the key is the vector's
			key.Hi ^= 1 << (40 + i)
		} else {
			key.Lo ^= 1 << (40 + i)
		}
		n.others = append(n.others, key)
	}
	return n
}

// keysOf returns the keys of a vector's state and messages.
func keysOf(c *conformance.Case) (keys []wire.Key) {
	for key := range c.State.Objects {
		keys = append(keys, key)
	}
	for _, step := range c.Steps {
		if datagram, ok := frame.Content(step.Frame); ok {
			for _, m := range conformance.MessagesOf(datagram) {
				keys = append(keys, m.Key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b wire.Key) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) })
	return slices.Compact(keys)
}

// Reset implements [conformance.Target].
func (n *crowd) Reset(o chain.Options) error {
	o.MaxObjects += mostOthers
	return n.XDP.Reset(o)
}

// Load implements [conformance.Target].
func (n *crowd) Load(s conformance.State) error {
	other := chain.Object{Version: 9, Committed: 9, Epoch: 1, Value: []byte("another key's")}
	for _, key := range n.others {
		if err := n.PutObject(key, other); err != nil {
			return err
		}
	}
	for _, key := range n.keys {
		if err := n.PutObject(key, other); err != nil {
			break // there is no room for all at once
		}
	}
	n.Vacate(n.keys)
	n.Reserve(mostOthers - len(n.others))
	return n.XDP.Load(s)
}

// State implements [conformance.Target].
func (n *crowd) State() (conformance.State, error) {
	s, err := n.XDP.State()
	for _, key := range n.others {
		if o := s.Objects[key]; o.Version == 9 && o.Reads == 0 && o.Writes == 0 {
			delete(s.Objects, key)
		}
	}
	return s, err
}
