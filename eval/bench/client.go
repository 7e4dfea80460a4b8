package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// ClientOptions configure a measurement of the Go client.
type ClientOptions struct {
	NodeOptions
	Windows
	Nodes    int    // length of the chain
	CPUs     int    // for the client and the nodes together
	Batch    int    // keys of each GetKeys
	Names    bool   // give the client names, which it hashes each time, by GetMany
	Profile  string // file for a CPU profile of the rounds; empty: none
	Progress Progress
}

// ClientResult is the rate and the cost of gets through the Go client. Costs are per get.
type ClientResult struct {
	Subject
	ClientRound
	Nodes      int           `json:"nodes"`
	CPUs       int           `json:"cpus"`
	Batch      int           `json:"batch"`
	Names      bool          `json:"names"`
	Callers    int           `json:"callers"`
	Keys       int           `json:"keys"`
	ValueBytes int           `json:"value_bytes"`
	Gets       uint64        `json:"gets"`
	Wrong      uint64        `json:"wrong"`
	Bundles    uint64        `json:"bundles"` // datagrams with several requests, writes and warming up included
	Trains     uint64        `json:"trains"`  // messages of several bundles, which the kernel cut
	Refused    uint64        `json:"refused"` // such messages that it did not cut
	Rounds     []ClientRound `json:"rounds"`
	Host       Host          `json:"machine"`
}

// ClientRound is one window. CPU times are those of the process: the client, and the kernel's work for its packets,
// which includes the nodes' programs.
type ClientRound struct {
	GetsPerS    float64 `json:"gets_per_s"`
	UserNs      float64 `json:"user_ns"`
	SystemNs    float64 `json:"system_ns"`
	Allocations float64 `json:"allocations"`
	AllocBytes  float64 `json:"allocated_bytes"`
}

// callersPerCPU lets one caller's batch run while another evaluates its own.
const callersPerCPU = 2

// Client measures GetKeys or GetMany of the Go client against a chain. The process, with the nodes' programs that the kernel runs
// for its packets, stays on some CPUs.
func Client(ctx context.Context, o ClientOptions) (_ *ClientResult, err error) {
	if err := validate(&o); err != nil {
		return nil, err
	}
	restore, err := stayOnCPUs(o.CPUs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	s, err := OpenSockets(ctx, SocketOptions{NodeOptions: o.NodeOptions, Nodes: o.Nodes})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	l := &clientLoad{options: &o, callers: callersPerCPU * o.CPUs, keys: make([]client.Key, o.Keys)}
	l.client, err = client.New(client.Options{Cluster: s.Cluster(), Window: l.callers * o.Batch, Timeout: clientTimeout})
	if err != nil {
		return nil, err
	}
	defer l.client.Close()
	r := &ClientResult{
		Subject: s.Subject(), Nodes: o.Nodes, CPUs: o.CPUs, Batch: o.Batch, Names: o.Names, Callers: l.callers, Keys: o.Keys,
		ValueBytes: o.ValueBytes, Host: ThisHost(),
	}
	if err := s.Do(func() error { return l.run(ctx, r) }); err != nil {
		return nil, err
	}
	traffic := l.client.Traffic()
	r.Bundles, r.Trains, r.Refused = traffic.Bundles, traffic.Trains, traffic.Refused
	r.summarise()
	return r, nil
}

// maxBatch keeps the client's window, and with it the answers under way, small.
const maxBatch = 1024

// clientTimeout bounds an operation: a machine under load may keep the client waiting.
const clientTimeout = 10 * time.Second

func (o *ClientOptions) validate() error {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return err
	}
	if n := runtime.NumCPU(); o.CPUs < 1 || o.CPUs > n {
		return wrongOption("--cpus: 1 to %d, not %d", n, o.CPUs)
	}
	if o.Batch < 1 || o.Batch > maxBatch {
		return wrongOption("--batch: 1 to %d, not %d", maxBatch, o.Batch)
	}
	return nil
}

// clientLoad is the load of a client.
type clientLoad struct {
	options *ClientOptions
	client  *client.Client
	callers int
	keys    []client.Key
}

// run stores the keys and measures all rounds. It runs on a thread in the clients' host, because the client makes its
// sockets on a thread that calls it.
func (l *clientLoad) run(ctx context.Context, r *ClientResult) error {
	l.options.Progress.say("writing %d keys of %d bytes", len(l.keys), l.options.ValueBytes)
	if err := l.fill(ctx); err != nil {
		return err
	}
	if !l.options.InOrder {
		rand.Shuffle(len(l.keys), func(i, j int) { l.keys[i], l.keys[j] = l.keys[j], l.keys[i] })
	}
	window := l.options.length()
	if _, _, _, err := l.round(ctx, window); err != nil { // warms up
		return err
	}
	stop, err := l.options.profile()
	if err != nil {
		return err
	}
	for i := range l.options.Rounds {
		l.options.Progress.say("round %d of %d", i+1, l.options.Rounds)
		round, gets, wrong, err := l.round(ctx, window)
		if err != nil {
			return errors.Join(err, stop())
		}
		r.Rounds = append(r.Rounds, round)
		r.Gets += gets
		r.Wrong += wrong
	}
	return stop()
}

// profile starts a CPU profile if one is wanted.
func (o *ClientOptions) profile() (stop func() error, err error) {
	if o.Profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(o.Profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// value returns the value stored under a key.
func (l *clientLoad) value(key client.Key) ([]byte, error) {
	hash, err := wire.HashKey([]byte(key.String()))
	return valueOf(hash, l.options.ValueBytes), err
}

// fill writes every key.
func (l *clientLoad) fill(ctx context.Context) error {
	const together = 256
	ops := make([]client.Op, 0, together)
	for i := range l.keys {
		key, err := client.KeyOf(fmt.Sprintf("key-%d", i))
		if err != nil {
			return err
		}
		value, err := l.value(key)
		if err != nil {
			return err
		}
		l.keys[i] = key
		if ops = append(ops, client.PutOp("", value).WithKey(key)); len(ops) < together && i < len(l.keys)-1 {
			continue
		}
		for n, outcome := range l.client.Do(ctx, ops) {
			if outcome.Err != nil {
				return fmt.Errorf("write key %d of %d: %w", i-len(ops)+n+1, len(l.keys), outcome.Err)
			}
		}
		ops = ops[:0]
	}
	return nil
}

// round reads for a time, and returns how many gets there were and how many had another value than the stored one.
func (l *clientLoad) round(ctx context.Context, window time.Duration) (r ClientRound, gets, wrong uint64, err error) {
	counts := make([]struct{ gets, wrong uint64 }, l.callers)
	before, err := usageNow()
	if err != nil {
		return r, 0, 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range counts {
		group.Go(func() error {
			at := i * len(l.keys) / l.callers
			batch := make([]client.Key, l.options.Batch)
			for time.Since(before.at) < window {
				for n := range batch {
					batch[n] = l.keys[at]
					at = (at + 1) % len(l.keys)
				}
				counts[i].gets += uint64(len(batch))
				bad, err := l.getMany(ctx, batch)
				if err != nil {
					return err
				}
				counts[i].wrong += bad
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return r, 0, 0, err
	}
	after, err := usageNow()
	for _, c := range counts {
		gets += c.gets
		wrong += c.wrong
	}
	return after.since(before, gets), gets, wrong, err
}

// getMany reads keys and returns how many had another value than the stored one. Some answers of each batch are
// checked, because checking costs as much as a tenth of a get.
func (l *clientLoad) getMany(ctx context.Context, keys []client.Key) (wrong uint64, err error) {
	const checked = 16
	for i, outcome := range l.get(ctx, keys) {
		if outcome.Err != nil {
			return 0, fmt.Errorf("get %q: %w", keys[i], outcome.Err)
		}
		if i%checked != 0 {
			continue
		}
		value, err := l.value(keys[i])
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(value, outcome.Value) {
			wrong++
		}
	}
	return wrong, nil
}

func (l *clientLoad) get(ctx context.Context, keys []client.Key) []client.Outcome {
	if !l.options.Names {
		return l.client.GetKeys(ctx, keys)
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.String()
	}
	return l.client.GetMany(ctx, names)
}

// usage is what this process has used.
type usage struct {
	at           time.Time
	user, system time.Duration
	mallocs      uint64
	bytes        uint64
}

func usageNow() (usage, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return usage{}, fmt.Errorf("read the CPU time: %w", err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{
		at: time.Now(), user: time.Duration(u.Utime.Nano()), system: time.Duration(u.Stime.Nano()),
		mallocs: m.Mallocs, bytes: m.TotalAlloc,
	}, nil
}

// since returns the usage of each of n gets since another moment.
func (u usage) since(before usage, n uint64) ClientRound {
	each := 1 / float64(n)
	return ClientRound{
		GetsPerS:    float64(n) / u.at.Sub(before.at).Seconds(),
		UserNs:      float64(u.user-before.user) * each,
		SystemNs:    float64(u.system-before.system) * each,
		Allocations: float64(u.mallocs-before.mallocs) * each,
		AllocBytes:  float64(u.bytes-before.bytes) * each,
	}
}

func (r *ClientResult) summarise() {
	median := func(of func(*ClientRound) float64) float64 {
		var all []float64
		for i := range r.Rounds {
			all = append(all, of(&r.Rounds[i]))
		}
		return statistics.Median(all)
	}
	r.ClientRound = ClientRound{
		GetsPerS:    median(func(x *ClientRound) float64 { return x.GetsPerS }),
		UserNs:      median(func(x *ClientRound) float64 { return x.UserNs }),
		SystemNs:    median(func(x *ClientRound) float64 { return x.SystemNs }),
		Allocations: median(func(x *ClientRound) float64 { return x.Allocations }),
		AllocBytes:  median(func(x *ClientRound) float64 { return x.AllocBytes }),
	}
}

// Table returns one row per round.
func (r *ClientResult) Table() ([]string, [][]string) {
	row := func(name string, x *ClientRound) []string {
		return []string{
			name, count(x.GetsPerS), count(x.UserNs), count(x.SystemNs), fmt.Sprintf("%.2f", x.Allocations), count(x.AllocBytes),
		}
	}
	var rows [][]string
	for i := range r.Rounds {
		rows = append(rows, row(fmt.Sprint(i+1), &r.Rounds[i]))
	}
	return []string{"round", "gets/s", "user ns", "system ns", "allocations", "bytes"}, append(rows, row("median", &r.ClientRound))
}

// Summary states the load and what the CPU times contain.
func (r *ClientResult) Summary() string {
	what := "keys hashed before"
	if r.Names {
		what = "names"
	}
	return fmt.Sprintf("chain of %d, %d keys of %d bytes, plane %s: %d callers with %d %s in each batch, on %d of the CPUs; "+
		"%d gets, %d of those checked wrong; %d bundles, %d messages that the kernel cut into several, %d that it refused.\n"+
		"User and system CPU time, allocations and allocated bytes are per get; the system's part includes the nodes' programs.\n%v",
		r.Nodes, r.Keys, r.ValueBytes, r.describe(), r.Callers, r.Batch, what, r.CPUs, r.Gets, r.Wrong, r.Bundles,
		r.Trains-r.Refused, r.Refused, r.Host)
}
