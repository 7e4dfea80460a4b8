package chaos

import (
	"context"
	"errors"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// After all nodes were emptied, the controllers may take the chains for whole until they hear of it: the operator goes
// on until each shard has another epoch.
func TestFormAgainAwaitsTheLoss(t *testing.T) {
	asked, before := 0, []uint32{7, 8}
	now := []uint32{7, 8}
	c := keyspaceControl{o: &KeyspaceOptions{AcceptLosses: func(context.Context, *lab.Lab) (whole bool, err error) {
		switch asked++; asked {
		case 2:
			now[0]++
		case 3:
			now[1]++
			return false, nil // they are being filled
		}
		return true, nil
	}}}
	if err := c.formAgain(t.Context(), before, func() []uint32 { return now }); err != nil || asked != 4 {
		t.Errorf("the operator looked %d times: %v", asked, err)
	}
}

// A fault is injected and ended whole when the trial is over meanwhile: the checks that follow need the cluster.
func TestFaultsEndAfterTheTrial(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := &driver{setup: &Setup{}, count: make(map[string]int)}
	f := &fault{begin: context.Context.Err, end: context.Context.Err}
	if err := errors.Join(d.begin(over, f), d.end(over, f)); err != nil {
		t.Error(err)
	}
}
