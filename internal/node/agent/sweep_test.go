package agent

import (
	"fmt"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// TestSweep: a session goes when nothing was written in it between two sweeps.
func TestSweep(t *testing.T) {
	plane, client := listen(t), newTail(t)
	if _, err := New(Options{Name: "a", Cluster: clusterOf(plane.Addr()), Plane: plane}); err != nil {
		t.Fatal(err)
	}
	write := func(session, seq uint64) {
		t.Helper()
		client.send(plane.Addr(), put(t, fmt.Sprint("k", session), "v", session, seq))
		if m, ok := client.receive(patience); !ok || m.Status() != wire.StatusOk {
			t.Fatal("the write was not answered")
		}
	}
	s := &sweeper{plane: plane}
	for i, step := range []struct {
		writes  [][2]uint64 // session, seq
		dropped int
		left    int
	}{
		{[][2]uint64{{1, 1}, {2, 1}, {3, 1}}, 0, 3},
		{[][2]uint64{{2, 2}}, 2, 1},
		{[][2]uint64{{2, 3}, {1, 2}}, 0, 2},
		{nil, 2, 0},
		{nil, 0, 0},
	} {
		for _, w := range step.writes {
			write(w[0], w[1])
		}
		dropped, err := s.sweep()
		usage, usageErr := plane.Usage()
		if err != nil || usageErr != nil || dropped != step.dropped || usage.Sessions != step.left {
			t.Errorf("sweep %d: dropped %d, left %d (%v, %v); want %d, %d", i, dropped, usage.Sessions, err, usageErr, step.dropped, step.left)
		}
	}
	_ = plane.Sessions(func(k chain.SessionKey, _ chain.Session) bool { t.Error("left: ", k); return true })
}
