package reconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// Invalid is a configuration that can never be right; Refusal is one that the node's present state forbids.
type (
	Invalid struct{ error }
	Refusal struct{ error }
)

// CheckStep checks that a node at self, configured as old, may be configured as next.
func CheckStep(self netip.AddrPort, old, next chain.ShardConfig) error {
	if err := next.Validate(); err != nil {
		return Invalid{err}
	}
	switch {
	case next.Epoch == 0:
		return Invalid{errors.New("the first epoch is 1")}
	case next.State != chain.None && next.Members[next.Self] != self:
		return Invalid{fmt.Errorf("this node is %v, not %v", self, next.Members[next.Self])}
	case next.Epoch < old.Epoch:
		return Refusal{fmt.Errorf("epoch %d is older than the node's %d", next.Epoch, old.Epoch)}
	case next.State != chain.None && (next.Floor < old.Floor || next.Bar < old.Bar):
		return Refusal{fmt.Errorf("floor %d and bar %d are below the node's, %d and %d: was an old state restored?",
			next.Floor, next.Bar, old.Floor, old.Bar)}
	case next.Epoch == old.Epoch && !sameChain(old, next):
		return Refusal{fmt.Errorf("the chain of epoch %d is %v here: another chain needs a higher epoch", old.Epoch, old.Members)}
	}
	return nil
}

// sameChain lets a node leave its chain within an epoch, but not join another.
func sameChain(old, next chain.ShardConfig) bool {
	return next.State == chain.None || slices.Equal(old.Members, next.Members)
}

// SameConfig reports whether a node that is configured as a needs nothing to be configured as b.
func SameConfig(a, b chain.ShardConfig) bool {
	if a.State == chain.None && b.State == chain.None {
		return a.Epoch == b.Epoch && a.Base == b.Base
	}
	return a.Epoch == b.Epoch && a.State == b.State && a.Learner == b.Learner && a.Base == b.Base && a.Self == b.Self &&
		a.Floor == b.Floor && a.Bar == b.Bar && slices.Equal(a.Members, b.Members)
}
