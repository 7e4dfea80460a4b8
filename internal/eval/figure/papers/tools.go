package papers

import "github.com/netcraq/netcraq/internal/verify/chaos"

// Tools are functions that some figures need from their caller.
type Tools struct {
	// Cluster makes a managed cluster of our own; its argument receives progress messages. Without it,
	// figures that need one fail.
	Cluster func(say func(string)) (chaos.Setup, error)
}
