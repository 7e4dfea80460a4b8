package driver

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// TestStalled: a recovery is given up when it makes no progress, although gateways that are away are asked again and
// again; not while a content is on its way.
func TestStalled(t *testing.T) {
	long, disk := time.Now().Add(-time.Hour), core.Disk{Name: 1}
	for name, c := range map[string]struct {
		r    repair
		want bool
	}{
		"progress": {repair{moved: time.Now()}, false},
		"silence":  {repair{moved: long}, true},
		"asking":   {repair{moved: long, busy: map[core.Disk]time.Time{disk: time.Now()}}, true},
		"content":  {repair{moved: long, busy: map[core.Disk]time.Time{disk: long}}, false},
		"log":      {repair{moved: long, making: true}, false},
	} {
		if got := c.r.stalled(); got != c.want {
			t.Errorf("%s: stalled is %t", name, got)
		}
	}
}
