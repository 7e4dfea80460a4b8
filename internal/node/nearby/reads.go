package nearby

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

const (
	// tick is how often pins are looked at.
	tick = 100 * time.Millisecond
	// firstPause and longestPause bound the pause before a node is tried again.
	firstPause   = time.Second
	longestPause = time.Minute
)

// Reads finds the nodes of a chain that are on this machine, and reads from them.
type Reads struct {
	dir string // in which nodes pin their data planes, each in a directory of its own
	log *slog.Logger

	mu    sync.RWMutex // held while nodes changes; read-held during a read
	nodes []*node
	turn  atomic.Uint32 // of the node that reads use

	tried map[string]*attempt // by pin; used by Run alone
	told  bool                // that the directory may not be read
}

// node is a node on this machine that belongs to the chain.
type node struct {
	name, pin string
	memory    *xdp.Nearby
	failed    atomic.Bool
}

// attempt is a directory of pins that could not be used.
type attempt struct {
	next  time.Time
	pause time.Duration
	why   string // already logged
}

// New makes reads from nodes that pin their data planes below a directory. There are none before [Reads.Run] has found one.
func New(dir string, log *slog.Logger) *Reads {
	return &Reads{dir: dir, log: log, tried: make(map[string]*attempt)}
}

// Run looks for nodes of the client's chains until ctx ends.
func (r *Reads) Run(ctx context.Context, c *client.Client) {
	defer r.drop(func(*node) bool { return true })
	for {
		r.drop(func(n *node) bool { return n.failed.Load() || n.memory.Gone() })
		r.look(ctx, c)
		if !retry.Sleep(ctx, tick) {
			return
		}
	}
}

// Read reads keys in their order, each after the one before it. It calls answer for those that a node of this machine may
// answer; the value is valid during that call only. The others go through the network.
func (r *Reads) Read(keys []wire.Key, answer func(i int, version uint64, epoch uint32, value []byte)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.nodes) == 0 {
		return
	}
	turn := r.turn.Load()
	n, first := r.nodes[int(turn)%len(r.nodes)], false
	err := n.memory.Read(keys, func(i int, version uint64, epoch uint32, value []byte) {
		first = first || i == 0
		answer(i, version, epoch, value)
	})
	if err != nil {
		n.failed.Store(true)
	}
	if !first { // it may be out of the first key's chain
		r.turn.CompareAndSwap(turn, turn+1)
	}
}

// drop stops the use of some nodes.
func (r *Reads) drop(gone func(*node) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = slices.DeleteFunc(r.nodes, func(n *node) bool {
		if !gone(n) {
			return false
		}
		r.log.Info("reads no longer use the memory of a node on this machine", "node", n.name)
		if err := n.memory.Close(); err != nil {
			r.log.Warn("freeing the memory of a node", "node", n.name, "error", err)
		}
		return true
	})
}

// look looks for nodes that are not used yet.
func (r *Reads) look(ctx context.Context, c *client.Client) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, os.ErrPermission) && !r.told {
		r.told = true
		r.log.Info("reads of the chain use the network only: to read from nodes on this machine, run this process as root, "+
			"or with CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH", "reason", err)
	}
	for _, e := range entries {
		pin := filepath.Join(r.dir, e.Name())
		used := slices.ContainsFunc(r.nodes, func(n *node) bool { return n.pin == pin })
		if a := r.tried[pin]; !e.IsDir() || used || !xdp.Pinned(pin) || a != nil && time.Now().Before(a.next) {
			continue
		}
		n, err := open(ctx, c, pin)
		if err != nil {
			r.failed(pin, err)
			continue
		}
		delete(r.tried, pin)
		r.mu.Lock()
		r.nodes = append(r.nodes, n)
		r.mu.Unlock()
		r.log.Info("reads use the memory of a node on this machine", "node", n.name, "pin", pin)
	}
}

// failed notes that a node cannot be used.
func (r *Reads) failed(pin string, err error) {
	a := r.tried[pin]
	if a == nil {
		a = &attempt{pause: firstPause}
		r.tried[pin] = a
	}
	a.next = time.Now().Add(a.pause)
	a.pause = min(2*a.pause, longestPause)
	if errors.Is(err, errNotOurs) || a.why == err.Error() {
		return
	}
	a.why = err.Error()
	r.log.Warn("reads do not use the memory of a node on this machine", "pin", pin, "reason", err)
}
