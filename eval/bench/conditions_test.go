package bench

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// TestConditions: without options requests are shuffled and leases end.
func TestConditions(t *testing.T) {
	keys := randomKeys(1000)
	var usual Conditions
	asked := usual.order(keys)
	if slices.Equal(asked, keys) {
		t.Error("the keys are in the order of insertion")
	}
	compare := func(a, b wire.Key) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) }
	if !slices.Equal(slices.SortedFunc(slices.Values(asked), compare), slices.SortedFunc(slices.Values(keys), compare)) {
		t.Error("shuffling changes the keys")
	}
	if usual.lease() == dataplane.Forever {
		t.Error("leases have no end")
	}
	old := Conditions{InOrder: true, LeaseForever: true}
	if !slices.Equal(old.order(keys), keys) || old.lease() != dataplane.Forever {
		t.Error("the options do not restore the order of insertion and leases without an end")
	}
	for _, flag := range []string{"--in-order", "--lease-forever"} {
		if !strings.Contains(old.conditions(), flag) || strings.Contains(usual.conditions(), flag) {
			t.Errorf("%s: %q, %q", flag, old.conditions(), usual.conditions())
		}
	}
}
