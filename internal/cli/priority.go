package cli

import (
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// PriorityFlag adds the flag that says how a controller or a node's agent comes before other processes of its machine.
func PriorityFlag(f *pflag.FlagSet, class *scheduling.Class) {
	*class = scheduling.RealTime
	f.Var(class, "priority", "before other processes of this machine: realtime, or fair where many nodes share one")
}
