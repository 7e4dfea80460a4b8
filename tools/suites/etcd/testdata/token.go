package e2e

import (
	"fmt"
	"sync/atomic"
)

// tokens counts clusters.
var tokens atomic.Int64

// newToken returns the token of a cluster in place of the one that its configuration has: two clusters of a test shall not
// have the same identity in its chain, though they may have the same configuration.
func newToken(configured string) string {
	if n := tokens.Add(1); n > 1 {
		return fmt.Sprint(configured, n)
	}
	return configured
}
