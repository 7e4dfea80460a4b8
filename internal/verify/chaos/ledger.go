package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/verify/history"
)

// ledger records the acknowledged writes of each key: none may be missing at the end.
type ledger struct {
	mu   sync.Mutex
	keys map[string]*account
}

// account records one key's acknowledged writes.
type account struct {
	versions []uint64
	newest   uint64
	value    string // value of the newest version
	present  bool
}

func newLedger() *ledger { return &ledger{keys: make(map[string]*account)} }

// enter records the acknowledged writes among some operations.
func (l *ledger) enter(ops []history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ops {
		op := &ops[i]
		if op.Kind == history.Get || op.Outcome != history.OK {
			continue
		}
		a := l.keys[op.Key]
		if a == nil {
			a = new(account)
			l.keys[op.Key] = a
		}
		a.versions = append(a.versions, op.Version)
		if op.Version < a.newest {
			continue
		}
		a.newest, a.value, a.present = op.Version, op.Value, op.Kind != history.Delete
		if op.Kind == history.Add {
			a.value = op.Read
		}
	}
}

// acknowledged returns the number of writes in the ledger.
func (l *ledger) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0
	for _, a := range l.keys {
		sum += len(a.versions)
	}
	return sum
}

// missing returns the number of acknowledged writes that a copy of the key lacks: the copy is
// older, or it has another value for the version.
func (a *account) missing(version uint64, value string, present bool) int {
	lost := 0
	for _, v := range a.versions {
		if v > version {
			lost++
		}
	}
	if version == a.newest && (present != a.present || value != a.value) {
		lost++
	}
	return lost
}

// loss describes the missing writes of a key at a node.
type loss struct {
	key, node string
	writes    int
	version   uint64 // the node's version
	newest    uint64 // the newest acknowledged version
}

func (l loss) String() string {
	return fmt.Sprintf("%s at %s: version %d, but %d was acknowledged: %d writes are missing",
		l.key, l.node, l.version, l.newest, l.writes)
}

// readers is the number of keys read concurrently.
const readers = 16

// audit reads every key from every complete member of its chain and returns the missing writes. A
// key counts once, at the member that lacks most.
func (l *ledger) audit(ctx context.Context, c *client.Client) (lost int, losses []loss, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for key, a := range l.keys {
		group.Go(func() error {
			worst, err := auditKey(ctx, c, key, a)
			if worst.writes > 0 {
				mu.Lock()
				defer mu.Unlock()
				lost += worst.writes
				losses = append(losses, worst)
			}
			return err
		})
	}
	err = group.Wait()
	slices.SortFunc(losses, func(a, b loss) int { return b.writes - a.writes })
	return lost, losses, err
}

// auditKey reads a key from every member of its chain. If the chain changes meanwhile, as it does when shards are moved, it
// begins again.
func auditKey(ctx context.Context, c *client.Client, key string, a *account) (worst loss, err error) {
	where, err := c.Locate(key)
	for err == nil {
		worst, err = auditAt(ctx, c, key, a, where.Chain)
		if err == nil {
			return worst, nil
		}
		before, failed := where.Chain, err
		if where, err = c.Locate(key); err == nil && slices.Equal(where.Chain, before) {
			err = failed
		}
	}
	return worst, err
}

// auditAt reads a key from some nodes and returns the loss of the one that lacks most.
func auditAt(ctx context.Context, c *client.Client, key string, a *account, nodes []string) (worst loss, err error) {
	for _, node := range nodes {
		r, err := c.Get(ctx, key, client.From(client.Named(node)))
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return worst, fmt.Errorf("read %s at %s after the trial: %w", key, node, err)
		}
		if n := a.missing(r.Version, string(r.Value), err == nil); n > worst.writes {
			worst = loss{key, node, n, r.Version, a.newest}
		}
	}
	return worst, nil
}
