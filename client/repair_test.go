package client

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// repair reconfigures a chain as a controller does: a later epoch without one node, or with the same members. It freezes
// the remaining nodes, removes the leaving one, and activates the remaining ones.
func (w *network) repair(t *testing.T, now *Cluster, leaving string) *Cluster {
	t.Helper()
	next := *now
	next.Epoch++
	next.Chains = [][]string{slices.DeleteFunc(slices.Clone(now.Chains[0]), func(name string) bool {
		return name == leaving
	})}
	set := func(state chain.State) {
		for i, node := range next.Nodes {
			config := next.ShardConfig(node.Name, 0)
			if config.State != chain.None {
				config.State = state
			}
			if err := w.planes[i].ConfigureAll(map[uint16]chain.ShardConfig{0: config}); err != nil {
				t.Error(err)
			}
			if config.State == chain.None {
				continue
			}
			if err := w.planes[i].Grant(0, dataplane.Forever); err != nil {
				t.Error(err)
			}
		}
	}
	set(chain.Frozen)
	set(chain.Active)
	return &next
}

// Every ADD counts exactly once while messages are lost and the chain changes: heads, tails and others leave, and the
// client gets the new map early or late.
func TestExactlyOnceThroughRepairs(t *testing.T) {
	const workers = 4
	w := newNetwork(t, 5, testNodeOptions(1))
	w.set(badNetwork)
	resync(t, w.planes)
	f := newFollower(t, w.cluster)
	c, ctx := newClient(t, Options{Follow: f, Timeout: time.Minute}), soon(t)

	var counts additions
	count := func(r Result, err error) { counts.add(t, r, err) }
	done := make(chan struct{})
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if n%2 == 0 {
					count(c.Add(ctx, "counter", 1))
				} else {
					o := c.Do(ctx, []Op{AddOp("counter", 1)})[0]
					count(o.Result, o.Err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(w.seed, 1))
	now := w.cluster
	for _, leaving := range []string{"n1", "", "n5", "n3", "", ""} {
		counts.await(8)
		next := w.repair(t, now, leaving)
		switch random.IntN(3) {
		case 0:
			f.set(t, next)
		case 1:
			f.whenStale(t, next)
		case 2:
			time.AfterFunc(time.Duration(random.Int64N(int64(20*time.Millisecond))), func() { f.set(t, next) })
		}
		now = next
	}
	counts.await(8)
	close(done)
	group.Wait()
	w.set(faults{})
	w.replay()
	r, err := c.Get(ctx, "counter")
	if n, ok := r.Counter(); err != nil || !ok || n != int64(len(counts.seen)) || n != counts.most {
		t.Fatalf("%d additions of 1 gave %d: %v", len(counts.seen), n, err)
	}
}

// additions collects the results of additions of 1 to one counter.
type additions struct {
	mu   sync.Mutex
	seen map[int64]bool
	most int64
	more chan struct{} // filled by every addition, if it waits for one
}

func (y *additions) add(t *testing.T, r Result, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, ok := r.Counter()
	if err != nil || !ok || y.seen[n] {
		t.Errorf("add: %+v, %v", r, err)
	}
	if y.seen == nil {
		y.seen = make(map[int64]bool)
	}
	y.seen[n], y.most = true, max(y.most, n)
	if y.more != nil {
		y.more <- struct{}{}
	}
}

// await waits for n more additions.
func (y *additions) await(n int) {
	more := make(chan struct{}, 1000)
	y.set(more)
	for range n {
		<-more
	}
	y.set(nil)
}

func (y *additions) set(more chan struct{}) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.more = more
}
