package etcdkeyspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	// together is how many keys a transaction puts.
	together = 128
	// writers put keys at the same time.
	writers = 16
	// again is the part of the keys that are put a second time, so that a compaction has something to remove.
	again = 0.1
	// tries is how often a request is sent before its error counts: its outcome may be unknown, and it does the same again.
	tries = 10
	// tryAgainAfter is the pause before that.
	tryAgainAfter = 300 * time.Millisecond
	// stillFor is how long the gateways' memory must not shrink until a compaction counts as done.
	stillFor = 15 * time.Second
	// stillWithin bounds the wait for that.
	stillWithin = 2 * time.Minute
	// answersWithin bounds the wait for a restarted gateway.
	answersWithin = 10 * time.Minute
)

// FillOptions say how much a keyspace gets.
type FillOptions struct {
	Options
	Bytes      uint64 // of keys and values
	ValueBytes int
	Seed       uint64
	Beside     string       // path of another server that is filled in the same way, key by key; empty: none
	Progress   func(string) // nil: no progress is reported
}

// Filled is the memory and disk space of a filled keyspace, and the time of a restart after kill -9.
type Filled struct {
	ResidentRatio  float64 `json:"resident_ratio"` // ResidentBytes to StoredBytes: the median
	StoredBytes    int64   `json:"stored_bytes"`   // keys and values
	ResidentBytes  []int64 `json:"resident_bytes"` // of each gateway, after a compaction
	DiskBytes      []int64 `json:"disk_bytes"`     // of each gateway's directory
	Keys           int     `json:"keys"`
	ValueBytes     int     `json:"value_bytes"`
	Unknown        int64   `json:"unknown_outcomes"` // requests that were sent again
	FillSeconds    float64 `json:"fill_seconds"`
	RestartSeconds float64 `json:"restart_seconds"`      // from the start of a gateway to its first linearizable answer
	PutCPU         float64 `json:"put_cpu_us,omitempty"` // of all processes for each put, beside another server
	Beside         *Beside `json:"beside,omitempty"`
}

// Fill fills the keyspace of gateways, compacts it, measures their memory, and kills and starts one of them.
func Fill(ctx context.Context, o FillOptions) (_ *Filled, err error) {
	o.QuotaBytes = 2*o.Bytes + 1<<30
	s, err := Start(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Ended(), s.Stop()) }()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // its calls have ended
	r := &Filled{ValueBytes: o.ValueBytes, Keys: int(o.Bytes) / (o.ValueBytes + len(fillKey(0)))}
	r.StoredBytes = int64(r.Keys) * int64(o.ValueBytes+len(fillKey(0)))
	r.FillSeconds, r.PutCPU, err = o.timed(ctx, c, r, func() (time.Duration, error) {
		gateways, err := cputime.Of(s.PIDs()...)
		chain, err2 := cputime.Below(os.Getpid(), s.PIDs()...)
		return gateways + chain, errors.Join(err, err2)
	})
	if err != nil {
		return nil, err
	}
	if err := r.measure(ctx, s, &o); err != nil {
		return nil, err
	}
	if r.RestartSeconds, err = o.restart(ctx, s, int64(r.Keys)); err != nil || o.Beside == "" {
		return r, err
	}
	r.Beside, err = o.fillBeside(ctx, r)
	return r, err
}

// timed fills and compacts a keyspace. It returns the seconds that the puts took, and the servers' CPU time for each if
// each was a request, in microseconds.
func (o *FillOptions) timed(ctx context.Context, c *clientv3.Client, r *Filled, used func() (time.Duration, error)) (
	seconds, putCPU float64, err error,
) {
	var unknown atomic.Int64
	began := time.Now()
	before, err := used()
	if err != nil {
		return 0, 0, err
	}
	if err := o.fill(ctx, c, r.Keys, &unknown); err != nil {
		return 0, 0, err
	}
	seconds = time.Since(began).Seconds()
	after, err := used()
	if o.Beside != "" {
		putCPU = float64((after - before).Microseconds()) / (float64(r.Keys) * (1 + again))
	}
	err = errors.Join(err, compact(ctx, c, &unknown))
	r.Unknown += unknown.Load()
	return seconds, putCPU, err
}

func fillKey(i int) string { return fmt.Sprintf("fill/%012d", i) }

// fill puts all keys, and some of them again.
func (o *FillOptions) fill(ctx context.Context, c *clientv3.Client, keys int, unknown *atomic.Int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	random := rand.New(rand.NewPCG(o.Seed, 0))
	put := func(chosen []int) {
		var puts []clientv3.Op
		for _, i := range chosen {
			puts = append(puts, clientv3.OpPut(fillKey(i), text(random, o.ValueBytes)))
		}
		group.Go(func() error { return putAll(ctx, c, puts, unknown) })
	}
	together := together
	if o.Beside != "" {
		together = 1
	}
	for first := 0; first < keys && ctx.Err() == nil; first += together {
		var chosen []int
		for i := first; i < min(first+together, keys); i++ {
			chosen = append(chosen, i)
		}
		put(chosen)
		if first%10_000 < together && o.Progress != nil {
			o.Progress(fmt.Sprintf("%d of %d keys", first, keys))
		}
	}
	for range int(again * float64(keys)) {
		put([]int{random.IntN(keys)})
	}
	return group.Wait()
}

// putAll puts keys, several by a transaction. It repeats a request that failed, and counts that.
func putAll(ctx context.Context, c *clientv3.Client, puts []clientv3.Op, unknown *atomic.Int64) error {
	return repeat(ctx, unknown, func() error {
		if len(puts) == 1 {
			_, err := c.Do(ctx, puts[0])
			return err
		}
		_, err := c.Txn(ctx).Then(puts...).Commit()
		return err
	})
}

// repeat repeats a request that failed, and counts that.
func repeat(ctx context.Context, unknown *atomic.Int64, do func() error) (err error) {
	for range tries {
		if err = do(); err == nil || ctx.Err() != nil {
			return err
		}
		unknown.Add(1)
		retry.Sleep(ctx, tryAgainAfter)
	}
	return err
}

// text returns letters that hardly can be compressed.
func text(random *rand.Rand, n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
	return string(b)
}

// compact removes all history.
func compact(ctx context.Context, c *clientv3.Client, unknown *atomic.Int64) error {
	return repeat(ctx, unknown, func() error {
		now, err := c.Get(ctx, fillKey(0), clientv3.WithCountOnly())
		if err == nil {
			_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		}
		if errors.Is(err, rpctypes.ErrCompacted) { // by the compaction before, whose answer was lost
			return nil
		}
		return err
	})
}

// settled returns the memory of processes as soon as it shrinks no more.
func settled(ctx context.Context, pids ...int) (all []int64, err error) {
	var least int64
	for began, shrunk := time.Now(), time.Now(); time.Since(shrunk) < stillFor && time.Since(began) < stillWithin; {
		all = all[:0]
		sum := int64(0)
		for _, pid := range pids {
			n, err := residentOf(pid)
			if err != nil {
				return nil, err
			}
			all, sum = append(all, n), sum+n
		}
		if least == 0 || sum < least-least/100 {
			least, shrunk = sum, time.Now()
		}
		if !retry.Sleep(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
	return all, nil
}

// measure takes the gateways' memory and disk space.
func (r *Filled) measure(ctx context.Context, s *Servers, o *FillOptions) (err error) {
	if r.ResidentBytes, err = settled(ctx, s.PIDs()...); err != nil {
		return err
	}
	var ratios []float64
	for i, n := range r.ResidentBytes {
		ratios = append(ratios, float64(n)/float64(r.StoredBytes))
		size, err := sizeOf(o.dir(i))
		if err != nil {
			return err
		}
		r.DiskBytes = append(r.DiskBytes, size)
	}
	r.ResidentRatio = statistics.Median(ratios)
	return nil
}

// residentOf returns the memory of a process.
func residentOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	return n << 10, err
}

// restart kills the last gateway and returns the seconds from its start until it counts all keys.
func (o *FillOptions) restart(ctx context.Context, s *Servers, keys int64) (float64, error) {
	last := len(s.processes) - 1
	s.processes[last].Kill()
	began := time.Now()
	var err error
	if s.processes[last], err = o.gateway(ctx, last); err != nil {
		return 0, err
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + s.processes[last].Address()}, Logger: zap.NewNop()})
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // its calls have ended
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for {
		answer, err := c.Get(ctx, "fill/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		switch {
		case err == nil && answer.Count != keys:
			return 0, fmt.Errorf("%d of %d keys are there after the restart", answer.Count, keys)
		case err == nil:
			return time.Since(began).Seconds(), nil
		case ctx.Err() != nil:
			return 0, fmt.Errorf("the restarted gateway does not answer: %w", err)
		}
	}
}

// sizeOf returns the size of all files below a directory.
func sizeOf(dir string) (sum int64, err error) {
	return sum, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // a file that a gateway has replaced
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
}
