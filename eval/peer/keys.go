package peer

import (
	"fmt"
	"math/rand/v2"

	"github.com/netcraq/netcraq/eval/statistics"
)

// keyName returns the i-th key of a workload, 16 bytes long.
func keyName(i int) string { return fmt.Sprintf("key-%012d", i) }

// valueOf returns the value that a workload stores.
func valueOf(bytes int) []byte {
	value := make([]byte, bytes)
	for i := range value {
		value[i] = 'a' + byte(i%26)
	}
	return value
}

// drawer chooses keys for one client. It is not safe for concurrent use.
type drawer struct {
	rng   *rand.Rand
	names []string
	ranks statistics.Zipf // nil: uniform
	from  int             // draws only every step-th name from this one on
	step  int
}

// draw returns the number of a key.
func (d *drawer) draw() int {
	if d.ranks != nil {
		return d.ranks.Draw(d.rng.Float64())
	}
	return d.from + d.step*d.rng.IntN((len(d.names)-d.from+d.step-1)/d.step)
}
