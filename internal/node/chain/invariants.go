package chain

import (
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// CheckInvariants returns an error if the node's state is one that no events lead to while all rules are on. Tests and
// simulations call it: it looks at everything. What [Node.PutObject] and [Node.PutSession] place has to be sound too.
func (n *Node) CheckInvariants() error {
	if n.options.Without != 0 {
		return nil
	}
	for k, o := range n.objects {
		if err := o.check(n.options.CellBytes); err != nil {
			return fmt.Errorf("object %v: %w", k, err)
		}
	}
	if err := n.checkSessions(); err != nil {
		return err
	}
	if n.renewed > n.latest {
		return fmt.Errorf("the leases were renewed until %d, at the latest until %d", n.renewed, n.latest)
	}
	return nil
}

func (o *Object) check(cellBytes int) error {
	switch {
	case o.Committed > o.Version: // I1
		return fmt.Errorf("version %d is committed of %d", o.Committed, o.Version)
	case o.Epoch != 0 && !o.Clean():
		return fmt.Errorf("it became clean in epoch %d, and is not", o.Epoch)
	case o.absent() && len(o.Value) > 0:
		return fmt.Errorf("a value of %d bytes, and it is absent", len(o.Value))
	case len(o.Value) > cellBytes:
		return fmt.Errorf("a value of %d bytes in a cell of %d", len(o.Value), cellBytes)
	}
	return nil
}

// checkSessions checks the sessions, and that each entry is counted for the client that holds it.
func (n *Node) checkSessions() error {
	for k, s := range n.sessions {
		switch {
		case s.Seq == 0 && s != (Session{}):
			return fmt.Errorf("session %v: %+v without a write", k, s)
		case s.Seq != 0 && !s.Op.IsWrite():
			return fmt.Errorf("session %v: the last write is %v", k, s.Op)
		case s.Seq != 0 && s.Status == wire.StatusOk && s.Version == 0:
			return fmt.Errorf("session %v: a write without a version", k)
		}
	}
	held := make(map[uint16]int)
	for k, number := range n.owners {
		if _, there := n.sessions[k]; !there {
			return fmt.Errorf("session %v: an owner, and no entry", k)
		}
		held[number]++
	}
	for number, h := range n.holders {
		if h.entries != held[number] {
			return fmt.Errorf("holder %d: %d entries are counted, it holds %d", number, h.entries, held[number])
		}
	}
	return nil
}
