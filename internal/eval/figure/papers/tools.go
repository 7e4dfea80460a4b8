package papers

import "github.com/netcraq/netcraq/internal/verify/chaos"

// Tools are what some figures need of those who run them.
type Tools struct {
	// Cluster says how a managed cluster of our own is made; it is told whom to tell what happens. Without it figures that need one
	// fail.
	Cluster func(say func(string)) (chaos.Setup, error)
}
