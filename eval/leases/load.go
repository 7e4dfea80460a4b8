package leases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/eval/cputime"
)

const (
	// maxLatencyUs is the longest latency that is told from longer ones.
	maxLatencyUs = 60_000_000
	// renewWithin bounds one renewal, as the kubelet's request.
	renewWithin = 10 * time.Second
)

// Window is the result of one load.
type Window struct {
	UpdatesPerS  float64 `json:"updates_per_s"`
	P50Ms        float64 `json:"p50_ms"`
	P99Ms        float64 `json:"p99_ms"`
	Failed       int64   `json:"failed"`         // renewals of unknown outcome
	Lost         int64   `json:"lost"`           // acknowledged renewals that a later one did not find
	LongestGapMs float64 `json:"longest_gap_ms"` // without an acknowledged renewal of any node
	// CPUus and ClientCPUus are the CPU time of the servers and of the clients for each renewal, in microseconds. 0: not
	// measured.
	CPUus       float64 `json:"cpu_us,omitempty"`
	ClientCPUus float64 `json:"client_cpu_us,omitempty"`
}

// load has workers renew the leases of all nodes in turn, as fast as they can.
type load struct {
	clients []*clientv3.Client
	nodes   []*node
	workers int
	bytes   int
	cpu     func() (time.Duration, error) // of the servers; nil: it is not measured

	mu      sync.Mutex
	window  Window
	count   int64
	latency *hdrhistogram.Histogram // microseconds
	last    time.Time               // an acknowledgement, or the beginning
	longest time.Duration
}

// measured runs the load for a time, and measures the CPU time of the servers and of the clients.
func (l *load) measured(ctx context.Context, length time.Duration) (Window, error) {
	servers, err := l.cpu()
	if err != nil {
		return Window{}, err
	}
	clients, err := cputime.Own()
	if err != nil {
		return Window{}, err
	}
	w := l.run(ctx, length, nil)
	laterClients, err := cputime.Own()
	if err != nil {
		return Window{}, err
	}
	laterServers, err := l.cpu()
	if n := float64(l.count); n > 0 {
		w.CPUus = (laterServers - servers).Seconds() * 1e6 / n
		w.ClientCPUus = (laterClients - clients).Seconds() * 1e6 / n
	}
	return w, err
}

// run runs the load for a time. It calls halfway, if it is not nil, in the middle.
func (l *load) run(ctx context.Context, length time.Duration, halfway func()) Window {
	l.latency = hdrhistogram.New(1, maxLatencyUs, 3)
	began := time.Now()
	l.last = began
	if halfway != nil {
		timer := time.AfterFunc(length/2, halfway)
		defer timer.Stop()
	}
	var working sync.WaitGroup
	for w := range l.workers {
		working.Go(func() {
			for i := w; time.Since(began) < length && ctx.Err() == nil; i += l.workers {
				if i >= len(l.nodes) {
					i = w
				}
				l.renew(ctx, l.nodes[i], l.clients[w%len(l.clients)])
			}
		})
	}
	working.Wait()
	took := time.Since(began)
	l.window.UpdatesPerS = float64(l.count) / took.Seconds()
	l.window.P50Ms, l.window.P99Ms = l.quantileMs(50), l.quantileMs(99)
	l.window.LongestGapMs = max(l.longest, time.Since(l.last)).Seconds() * 1000
	return l.window
}

func (l *load) renew(ctx context.Context, n *node, c *clientv3.Client) {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	began := time.Now()
	err := n.renew(ctx, c, l.bytes)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.count++
		l.longest, l.last = max(l.longest, now.Sub(l.last)), now
		_ = l.latency.RecordValue(min(now.Sub(began).Microseconds(), maxLatencyUs)) // within its range
	case errors.Is(err, errLost):
		l.window.Lost++
	default:
		l.window.Failed++
	}
}

func (l *load) quantileMs(q float64) float64 { return float64(l.latency.ValueAtQuantile(q)) / 1000 }
