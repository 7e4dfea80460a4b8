package e2e

import (
	"fmt"
	"sync/atomic"
)

// tokens counts clusters.
var tokens atomic.Int64

// newToken returns the token that etcd's framework gives a cluster, with a number from the second one on: two clusters
// of a test shall not have the same identity in its chain.
func newToken() string {
	if n := tokens.Add(1); n > 1 {
		return fmt.Sprint("new", n)
	}
	return "new"
}
