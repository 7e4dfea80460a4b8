package cli

import (
	"context"

	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4/p4runtime"
)

// SwitchDevice is the number of a switch for its controllers, unless its command line has another.
const SwitchDevice = 1

// DialSwitch controls a running switch, and gives it the program of nodes.
func DialSwitch(ctx context.Context, address string, device uint64, identity *security.Identity) (p4.Switch, error) {
	t := p4runtime.NodeTarget(address, device, identity.DialOption())
	t.Wait = true
	sw, err := p4runtime.Dial(ctx, t)
	if err != nil {
		return nil, err
	}
	return sw, nil
}
