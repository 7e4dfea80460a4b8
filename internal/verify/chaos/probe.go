package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// probe is a client that repeats one operation, one at a time, and records the times of its
// successes.
type probe struct {
	shard uint16
	do    func(ctx context.Context) error
	seen  moments
	sick  error // last error
}

// ProbeValue is the value that measuring clients write. Most coordination values have this length.
var ProbeValue = []byte("0123456789abcdef")

// probes are clients that work concurrently.
type probes struct {
	kv     *client.Client
	begin  time.Time
	all    []*probe
	stop   context.CancelFunc
	done   sync.WaitGroup
	number int
	// collect resumes the collection of garbage.
	collect func()
}

func newProbes(kv *client.Client) *probes { return &probes{kv: kv} }

// keyIn returns a new key of a shard.
func (p *probes) keyIn(shard uint16) (string, error) {
	for {
		p.number++
		key := fmt.Sprintf("probe-%d", p.number)
		where, err := p.kv.Locate(key)
		if err != nil || where.Shard == shard {
			return key, err
		}
	}
}

// writer adds a probe that writes a key of a shard.
func (p *probes) writer(shard uint16) (*probe, error) {
	key, err := p.keyIn(shard)
	if err != nil {
		return nil, err
	}
	return p.add(shard, func(ctx context.Context) error {
		_, err := p.kv.Put(ctx, key, ProbeValue)
		return err
	}), nil
}

// reader adds a probe that reads a key of a shard. The key is not written any more.
func (p *probes) reader(ctx context.Context, shard uint16, from client.ReadFrom) (*probe, error) {
	key, err := p.keyIn(shard)
	if err != nil {
		return nil, err
	}
	if _, err := p.kv.Put(ctx, key, ProbeValue); err != nil {
		return nil, err
	}
	return p.add(shard, func(ctx context.Context) error {
		_, err := p.kv.Get(ctx, key, client.From(from))
		return err
	}), nil
}

func (p *probes) add(shard uint16, do func(context.Context) error) *probe {
	one := &probe{shard: shard, do: do}
	p.all = append(p.all, one)
	return one
}

// probeMemory is the size of this process at which it collects garbage while probes run.
const probeMemory = 1 << 30

// start runs all probes until halt. Each pauses after every operation.
//
// Meanwhile this process collects no garbage. To begin and end a collection, Go stops all goroutines, and waits for the
// threads that they run on. These share their CPUs with the agents of a whole cluster, which are real-time: a collection
// was seen to stop all probes for 12 ms at once.
func (p *probes) start(ctx context.Context, pause time.Duration) {
	runtime.GC()
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(probeMemory)
	p.collect = sync.OnceFunc(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	ctx, p.stop = context.WithCancel(ctx)
	p.begin = time.Now()
	for _, one := range p.all {
		p.done.Go(func() { one.run(ctx, p.begin, pause) })
	}
}

// halt stops the probes.
func (p *probes) halt() {
	p.stop()
	p.done.Wait()
	p.collect()
}

// now returns the time since start.
func (p *probes) now() time.Duration { return time.Since(p.begin) }

// check returns an error for a probe that never succeeded, if there is one.
func (p *probes) check() error {
	for _, one := range p.all {
		if len(one.seen) == 0 {
			return fmt.Errorf("a client of shard %d never got an answer: %w", one.shard, errors.Join(one.sick))
		}
	}
	return nil
}

func (one *probe) run(ctx context.Context, begin time.Time, pause time.Duration) {
	timer := time.NewTimer(rand.N(pause)) // spreads the probes over time
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := one.do(context.WithoutCancel(ctx)); err != nil {
			one.sick = err
		} else {
			one.seen = append(one.seen, time.Since(begin))
		}
		timer.Reset(pause)
	}
}

// spreadShards chooses count shards evenly, with repetitions if there are fewer.
func spreadShards(m *topology.Map, count int) []uint16 {
	shards := make([]uint16, count)
	for i := range shards {
		shards[i] = uint16(i * m.Shards() / count)
	}
	return shards
}

// byShard merges the moments of the probes of each shard.
func byShard(all []*probe) map[uint16]moments {
	series := map[uint16][]moments{}
	for _, one := range all {
		series[one.shard] = append(series[one.shard], one.seen)
	}
	merged := make(map[uint16]moments, len(series))
	for shard, s := range series {
		merged[shard] = merge(s)
	}
	return merged
}
