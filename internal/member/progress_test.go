package member

import (
	"testing"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestProgress writes at a member, and watches there and at another one.
func TestProgress(t *testing.T) {
	c, _, _ := start(t)
	etcdtest.Progress(t, c.Members[0].ClientURL(), c.Members[0].ClientURL())
	etcdtest.Progress(t, c.Members[1].ClientURL(), c.Members[2].ClientURL())
}
