package etcdkeyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// writersEach is how many clients write at each gateway that is not killed.
	writersEach = 4
	// before and after are how long the clients are at work before a gateway is killed, and afterwards.
	before = time.Second
	after  = 4 * time.Second
	// callWithin bounds a call. One that fails is followed by the next one.
	callWithin = 2 * time.Second
)

// Takeovers has the gaps that clients of the other gateways saw when the active one was killed.
type Takeovers struct {
	WriteGaps []float64 `json:"write_gap_ms"` // the longest time without an acknowledged write, for each kill
	ReadGaps  []float64 `json:"read_gap_ms"`  // without a linearizable read, at the gateway that had the longer one
}

// TakeOver kills the active gateway of a keyspace some times, with kill -9, and starts it again.
func TakeOver(ctx context.Context, o Options, kills int) (_ *Takeovers, err error) {
	s, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	clients := make([]*clientv3.Client, len(s.processes))
	for i, endpoint := range s.Endpoints() {
		if clients[i], err = clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()}); err != nil {
			return nil, err
		}
		defer clients[i].Close() //nolint:errcheck // its calls have ended
	}
	r := new(Takeovers)
	for range kills {
		if err := r.kill(ctx, &o, s, clients); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// kill kills the active gateway while clients use the others, and starts it again.
func (r *Takeovers) kill(ctx context.Context, o *Options, s *Servers, clients []*clientv3.Client) error {
	active, err := s.active(ctx, clients)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	var writes moments
	reads := make([]moments, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		if i == active {
			continue
		}
		for range writersEach {
			all.Go(func() {
				writes.repeat(working, func(ctx context.Context) error { _, err := c.Put(ctx, name, name); return err })
			})
		}
		all.Go(func() {
			reads[i].repeat(working, func(ctx context.Context) error { _, err := c.Get(ctx, name); return err })
		})
	}
	time.Sleep(before)
	s.processes[active].Kill()
	time.Sleep(after)
	stop()
	all.Wait()
	longest := time.Duration(0)
	for i := range reads {
		if i != active {
			longest = max(longest, reads[i].gap())
		}
	}
	r.WriteGaps = append(r.WriteGaps, milliseconds(writes.gap()))
	r.ReadGaps = append(r.ReadGaps, milliseconds(longest))
	if s.processes[active], err = o.gateway(ctx, active); err != nil {
		return err
	}
	clients[active].SetEndpoints("http://" + s.processes[active].Address())
	return s.answer(ctx)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// active returns the gateway that executes the writes.
func (s *Servers) active(ctx context.Context, clients []*clientv3.Client) (int, error) {
	for i, endpoint := range s.Endpoints() {
		status, err := clients[i].Status(ctx, endpoint)
		if err != nil {
			return 0, err
		}
		if status.Leader == status.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("no gateway is active")
}

// moments are those at which calls were answered.
type moments struct {
	mu  sync.Mutex
	all []time.Time
}

// repeat makes a call again and again, and notes when it is answered, until ctx ends.
func (m *moments) repeat(ctx context.Context, call func(context.Context) error) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, callWithin)
		err := call(within)
		cancel()
		if err == nil {
			m.mu.Lock()
			m.all = append(m.all, time.Now())
			m.mu.Unlock()
		}
	}
}

// gap is the longest time between two moments.
func (m *moments) gap() (longest time.Duration) {
	slices.SortFunc(m.all, time.Time.Compare)
	for i := 1; i < len(m.all); i++ {
		longest = max(longest, m.all[i].Sub(m.all[i-1]))
	}
	return longest
}

// Table returns a row for each kill.
func (r *Takeovers) Table() (header []string, rows [][]string) {
	for i := range r.WriteGaps {
		rows = append(rows, []string{
			fmt.Sprint(i + 1), fmt.Sprintf("%.0f ms", r.WriteGaps[i]), fmt.Sprintf("%.0f ms", r.ReadGaps[i]),
		})
	}
	return []string{"kill", "no write", "no read at another gateway"}, rows
}

// Summary describes the load.
func (r *Takeovers) Summary() string {
	return fmt.Sprintf("The active gateway was killed while %d clients of each other gateway wrote and one read.",
		writersEach)
}
