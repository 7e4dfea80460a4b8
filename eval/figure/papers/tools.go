package papers

import (
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Tools are functions that some figures need from their caller.
type Tools struct {
	// Cluster makes a managed cluster of our own; its argument receives progress messages. Without it,
	// figures that need one fail.
	Cluster func(say func(string)) (chaos.Setup, error)
	// Kubernetes describes a cluster of Kubernetes. Without it, figures that need one fail.
	Kubernetes func() (kubernetes.Options, error)
}
