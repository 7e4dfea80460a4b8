package peer

import (
	"fmt"
	"time"
)

// Op is the operation that a workload repeats.
type Op string

// The operations of a workload.
const (
	Get Op = "get"
	Put Op = "put"
	// CAS is compare-and-swap against the version that the client last saw, repeated until it
	// succeeds. With uniform keys every client has its own keys, so that the first attempt
	// succeeds. With Zipf keys clients contend for the hot keys.
	CAS Op = "cas"
	// LockUnlock acquires and releases a lock. If the lock is held, the client tries another one.
	LockUnlock Op = "lock"
)

// Ops lists the operations.
func Ops() []Op { return []Op{Get, Put, CAS, LockUnlock} }

// Load is a workload. The zero value of every field but Op is its default.
type Load struct {
	Op         Op
	Clients    int           // concurrent clients; 0: 1
	Pipeline   int           // outstanding requests per client, for get and put; 0: 1
	PerSecond  float64       // operations started per second by all clients, evenly spaced; 0: closed loop
	Keys       int           // 0: 1000
	Zipf       float64       // exponent of the keys' popularity; 0: uniform
	ValueBytes int           // 0: 16
	WarmUp     time.Duration // time before the measurement; 0: a fifth of Duration
	Duration   time.Duration // time of the measurement; 0: 1 s
	Timeout    time.Duration // of an operation; 0: 2 s
	Seed       uint64        // of the keys drawn
}

// Check reports an invalid load.
func (l *Load) Check() error {
	completed := *l
	return completed.complete()
}

// complete fills in defaults and reports an invalid load.
func (l *Load) complete() error {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Clients, 1}, {&l.Pipeline, 1}, {&l.Keys, 1000}, {&l.ValueBytes, 16}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if l.Duration == 0 {
		l.Duration = time.Second
	}
	if l.WarmUp == 0 {
		l.WarmUp = l.Duration / 5
	}
	if l.Timeout == 0 {
		l.Timeout = 2 * time.Second
	}
	return l.check()
}

// Limits of a workload.
const (
	maxClients  = 4096
	maxPipeline = 1024
	maxKeys     = 10_000_000
	maxValue    = 1024 // a memcached request has to fit one datagram
)

func (l *Load) check() error {
	known := false
	for _, op := range Ops() {
		known = known || op == l.Op
	}
	switch {
	case !known:
		return fmt.Errorf("operation %q: %v are known", l.Op, Ops())
	case l.Clients < 1 || l.Clients > maxClients:
		return fmt.Errorf("clients: 1 to %d, not %d", maxClients, l.Clients)
	case l.Pipeline < 1 || l.Pipeline > maxPipeline:
		return fmt.Errorf("requests in a pipeline: 1 to %d, not %d", maxPipeline, l.Pipeline)
	case l.Pipeline > 1 && l.Op != Get && l.Op != Put:
		return fmt.Errorf("a pipeline is for %s and %s, not for %s", Get, Put, l.Op)
	case l.Pipeline > 1 && l.PerSecond > 0:
		return fmt.Errorf("a pipeline is for load without a rate")
	case l.PerSecond < 0:
		return fmt.Errorf("operations per second: want a positive number, not %v", l.PerSecond)
	case l.Keys < 1 || l.Keys > maxKeys:
		return fmt.Errorf("keys: 1 to %d, not %d", maxKeys, l.Keys)
	case l.Zipf < 0 || l.Zipf > 5:
		return fmt.Errorf("Zipf exponent: 0 to 5, not %v", l.Zipf)
	case l.ValueBytes < 1 || l.ValueBytes > maxValue:
		return fmt.Errorf("value: 1 to %d bytes, not %d", maxValue, l.ValueBytes)
	case l.Duration < 0 || l.WarmUp < 0 || l.Timeout < 0:
		return fmt.Errorf("times must be positive")
	}
	if l.Zipf == 0 && l.Keys < l.Clients {
		return fmt.Errorf("%d keys for %d clients: each client needs at least one key", l.Keys, l.Clients)
	}
	return nil
}

// Result is the outcome of a workload as its clients measured it.
type Result struct {
	System     string  `json:"system"`
	Op         Op      `json:"op"`
	PerSecond  float64 `json:"per_second"` // operations that succeeded
	P50us      float64 `json:"p50_us"`
	P99us      float64 `json:"p99_us"`
	P999us     float64 `json:"p999_us"` // unreliable unless KnowsP999
	MeanUs     float64 `json:"mean_us"`
	MaxUs      float64 `json:"max_us"`
	Operations int64   `json:"operations"`
	Errors     int64   `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
	// Conflicts counts refused compare-and-swaps and attempts to acquire held locks.
	Conflicts int64   `json:"conflicts"`
	Seconds   float64 `json:"seconds"`
	Clients   int     `json:"clients"`
	Pipeline  int     `json:"pipeline"` // latencies are those of a batch of this many requests
	Offered   float64 `json:"offered_per_second,omitempty"`
	Zipf      float64 `json:"zipf,omitempty"`
	// Generator names the load generator if it is not the client library: see [Fastest].
	Generator string  `json:"generator,omitempty"`
	Loss      float64 `json:"loss_percent,omitempty"` // set by the caller of Store.SetLoss
}

// TailTimes is the number of samples needed for p99.9: ten of them are above it.
const TailTimes = 10_000

// KnowsP999 reports whether there are enough samples for p99.9. A batch of a pipeline is one
// sample.
func (r *Result) KnowsP999() bool { return r.Operations >= TailTimes*int64(max(r.Pipeline, 1)) }
