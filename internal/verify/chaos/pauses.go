package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// Lengths of the pauses that a hypervisor causes when it schedules another machine.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// stops stops processes for several concurrent reasons. A process continues when no reason is left.
type stops struct {
	lab *lab.Lab

	mu      sync.Mutex
	reasons map[string]int // reasons by host
	since   map[string]time.Time
	total   time.Duration // summed stop time of all processes
	count   int
}

func newStops(l *lab.Lab) *stops {
	return &stops{lab: l, reasons: make(map[string]int), since: make(map[string]time.Time)}
}

// stop stops the process of a host. It ignores a process that is not running.
func (s *stops) stop(host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons[host]++; s.reasons[host] > 1 || !s.lab.AgentAlive(host) {
		return nil
	}
	s.since[host] = time.Now()
	s.count++
	return s.unlessGone(host, s.lab.Pause(host))
}

// release removes a reason.
func (s *stops) release(host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons[host]--; s.reasons[host] > 0 {
		return nil
	}
	if since, ok := s.since[host]; ok {
		s.total += time.Since(since)
		delete(s.since, host)
	}
	return s.unlessGone(host, s.lab.Resume(host))
}

// unlessGone drops an error that is only due to the end of the process.
func (s *stops) unlessGone(host string, err error) error {
	if err != nil && !s.lab.AgentAlive(host) {
		return nil
	}
	return err
}

// sum returns the summed stop time and the number of stops.
func (s *stops) sum() (time.Duration, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.count
}

// pauses stops every host's process for a share of the time until ctx ends. Each process has its
// own schedule.
func (s *stops) pauses(ctx context.Context, hosts []string, share float64, seed uint64) error {
	if share == 0 {
		return nil
	}
	failed := make(chan error, len(hosts))
	var all sync.WaitGroup
	for i, host := range hosts {
		schedule := newSchedule(share, seed, i)
		all.Go(func() { failed <- s.follow(ctx, host, schedule) })
	}
	all.Wait()
	for range hosts {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// follow stops one process by a schedule until ctx ends, and continues it at the end.
func (s *stops) follow(ctx context.Context, host string, next *schedule) error {
	for {
		run, pause := next.turn()
		if !retry.Sleep(ctx, run) {
			return nil
		}
		if err := s.stop(host); err != nil {
			return err
		}
		goesOn := retry.Sleep(ctx, pause)
		if err := s.release(host); err != nil || !goesOn {
			return err
		}
	}
}

// schedule generates the pauses of one process.
type schedule struct {
	rng  *rand.Rand
	runs float64 // mean time between two pauses
}

func newSchedule(share float64, seed uint64, process int) *schedule {
	mean := float64(shortestPause+longestPause) / 2
	return &schedule{rng: rand.New(rand.NewPCG(seed, uint64(process))), runs: mean * (1 - share) / share}
}

// turn is how long the process runs, and how long it is stopped then.
func (s *schedule) turn() (run, pause time.Duration) {
	run = time.Duration(s.rng.ExpFloat64() * s.runs)
	return run, shortestPause + time.Duration(s.rng.Float64()*float64(longestPause-shortestPause))
}
