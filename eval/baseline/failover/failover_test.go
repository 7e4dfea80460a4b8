package failover

import (
	"fmt"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// quick is a course of events that a test has time for.
func quick(o Options) Options {
	o.Objects, o.PerSecond, o.Writers, o.Readers, o.Quiet, o.Seed = 400, 1000, 8, 4, 300*time.Millisecond, 11
	return o
}

// All that wait for the failed node go on when it is led around; during the recovery only writes of
// the group wait that is copied.
func TestFailover(t *testing.T) {
	roottest.Need(t)
	for _, o := range []Options{
		{Protocol: NetChain}, {Protocol: NetChain, Groups: 40, Victim: "head"},
		{Protocol: NetChain, Groups: 40, Victim: "tail"},
		{Protocol: NetCRAQPaper, Victim: "head"}, {Protocol: NetCRAQPaper}, {Protocol: NetCRAQPaper, Victim: "tail"},
	} {
		o = quick(o)
		t.Run(fmt.Sprintf("%s, %d groups, %s", o.Protocol, o.Groups, o.Victim), func(t *testing.T) {
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatalf("seed %d: %v", o.Seed, err)
			}
			whole := 1000 * float64(o.Objects) / o.PerSecond // all that is copied, ms
			switch long := r.RepairPauseMs >= whole; {
			case r.LostWrites > 0:
				t.Errorf("seed %d: acknowledged writes are gone: %+v", o.Seed, r)
			case r.NoticedMs <= 0 || r.WritesBefore == 0 || r.ReadsBefore == 0:
				t.Errorf("seed %d: %+v", o.Seed, r)
			case o.Groups <= 1 && !long:
				t.Errorf("writes went on while everything was copied for %v ms: %+v", whole, r)
			case o.Groups > 1 && r.WritesDuring == 0:
				t.Errorf("writes of all groups waited: %+v", r)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Protocol: "paxos"}, {Protocol: NetCRAQPaper, Groups: 2}, {Protocol: NetChain, Victim: "nobody"},
		{Protocol: NetChain, Objects: 3},
		{Protocol: NetChain, Groups: 100, Objects: 50}, {Protocol: NetChain, PerSecond: -1},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
