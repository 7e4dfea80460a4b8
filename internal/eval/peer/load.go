package peer

import (
	"fmt"
	"time"
)

// Op is what a workload does again and again.
type Op string

// The operations of a workload.
const (
	Get Op = "get"
	Put Op = "put"
	// CAS is compare-and-swap against the version that the client last saw, repeated until it swaps. With uniform keys every client has
	// keys of its own, so that it swaps at once; with Zipf keys clients meet at the hot ones.
	CAS Op = "cas"
	// LockUnlock takes a lock and gives it back; while somebody else holds it the client tries another.
	LockUnlock Op = "lock"
)

// Ops lists the operations.
func Ops() []Op { return []Op{Get, Put, CAS, LockUnlock} }

// Load is a workload. The zero value of every field but Op is its default.
type Load struct {
	Op         Op
	Clients    int           // that ask at once; 0: 1
	Pipeline   int           // requests that each client has under way at once, for get and put; 0: 1
	PerSecond  float64       // operations started, evenly over time, by all clients together; 0: each as soon as its last has ended
	Keys       int           // 0: 1000
	Zipf       float64       // exponent of the keys' popularity; 0: all alike
	ValueBytes int           // 0: 16
	WarmUp     time.Duration // before what counts; 0: a fifth of Duration
	Duration   time.Duration // of what counts; 0: 1 s
	Timeout    time.Duration // of an operation; 0: 2 s
	Seed       uint64        // of the keys drawn
}

// Check reports what can't be.
func (l *Load) Check() error {
	completed := *l
	return completed.complete()
}

// complete fills in defaults and reports what can't be.
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
	maxValue    = 1024 // a request of memcached's has to fit one datagram
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
		return fmt.Errorf("operations per second: positive, not %v", l.PerSecond)
	case l.Keys < 1 || l.Keys > maxKeys:
		return fmt.Errorf("keys: 1 to %d, not %d", maxKeys, l.Keys)
	case l.Zipf < 0 || l.Zipf > 5:
		return fmt.Errorf("exponent of Zipf's law: 0 to 5, not %v", l.Zipf)
	case l.ValueBytes < 1 || l.ValueBytes > maxValue:
		return fmt.Errorf("value: 1 to %d bytes, not %d", maxValue, l.ValueBytes)
	case l.Duration < 0 || l.WarmUp < 0 || l.Timeout < 0:
		return fmt.Errorf("times must be positive")
	}
	if l.Zipf == 0 && l.Keys < l.Clients {
		return fmt.Errorf("%d keys for %d clients: at least one each is wanted", l.Keys, l.Clients)
	}
	return nil
}

// Result is what a workload's clients saw.
type Result struct {
	System     string  `json:"system"`
	Op         Op      `json:"op"`
	PerSecond  float64 `json:"per_second"` // operations that succeeded
	P50us      float64 `json:"p50_us"`
	P99us      float64 `json:"p99_us"`
	P999us     float64 `json:"p999_us"` // worth little unless KnowsP999
	MeanUs     float64 `json:"mean_us"`
	MaxUs      float64 `json:"max_us"`
	Operations int64   `json:"operations"`
	Errors     int64   `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
	// Conflicts are compare-and-swaps that were refused, and tries of locks that were taken.
	Conflicts int64   `json:"conflicts"`
	Seconds   float64 `json:"seconds"`
	Clients   int     `json:"clients"`
	Pipeline  int     `json:"pipeline"` // the times are those of a whole batch of so many
	Offered   float64 `json:"offered_per_second,omitempty"`
	Zipf      float64 `json:"zipf,omitempty"`
	// Generator is what made the load if it was not the client library: see [Fastest].
	Generator string  `json:"generator,omitempty"`
	Loss      float64 `json:"loss_percent,omitempty"` // filled in by who set it
}

// TailTimes is how many times have to be there to tell p99.9 from: ten of them lie beyond it.
const TailTimes = 10_000

// KnowsP999 reports whether enough times were taken to tell p99.9 from. Those of a pipeline count once.
func (r *Result) KnowsP999() bool { return r.Operations >= TailTimes*int64(max(r.Pipeline, 1)) }
