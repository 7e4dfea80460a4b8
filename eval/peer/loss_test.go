package peer

import (
	"errors"
	"testing"
	"time"
)

// TestOperationsSurviveLoss expects operations to succeed, only slower, with 5 % loss on every
// link, including those between servers.
func TestOperationsSurviveLoss(t *testing.T) {
	const percent = 5
	for _, name := range []string{NetCRAQ, Etcd, Redis, Memcached} {
		t.Run(name, func(t *testing.T) {
			s := open(t, name, Options{Lossy: true})
			l := Load{Op: Get, Clients: 4, Keys: 20, Duration: 500 * time.Millisecond, Timeout: 20 * time.Second}
			if err := errors.Join(Fill(t.Context(), s, l), s.SetLoss(percent)); err != nil {
				t.Fatal(err)
			}
			for _, l.Op = range []Op{Get, Put} {
				r, err := Run(t.Context(), s, l)
				if err != nil || r.Errors > 0 {
					t.Errorf("%s: %d errors, %s, %v", l.Op, r.Errors, r.FirstError, err)
				}
				t.Logf("%s: %.0f/s, p50 %.0f µs, p99 %.0f µs", l.Op, r.PerSecond, r.P50us, r.P99us)
			}
			if lost := lostFrames(t, s); lost == 0 {
				t.Error("no link lost anything")
			}
			if err := s.SetLoss(0); err != nil {
				t.Error(err)
			}
		})
	}
}

// lostFrames returns the number of frames that the links of a store have lost.
func lostFrames(t *testing.T, s Store) (lost uint64) {
	t.Helper()
	faults, err := networkOf(s).lab.Faults()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range faults.Directions {
		lost += d.Lost
	}
	return lost
}

func networkOf(s Store) *network {
	switch s := s.(type) {
	case *netcraq:
		return s.network
	case *etcdStore:
		return s.network
	case *zookeeper:
		return s.network
	case *redis:
		return s.network
	case *memcached:
		return s.network
	}
	panic("a store without a network")
}
