package cli

import (
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// PriorityFlag adds the flag for the scheduling class of a controller or an agent.
func PriorityFlag(f *pflag.FlagSet, class *scheduling.Class) {
	*class = scheduling.RealTime
	f.Var(class, "priority", "scheduling `class` of this process: realtime, or fair where many nodes share a machine")
}
