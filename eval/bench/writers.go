package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/client"
)

// WritersOptions configure a run of many concurrent writers.
type WritersOptions struct {
	Writers  int
	Cluster  *client.Cluster
	Chain    string // description of the cluster's nodes
	Sessions func(context.Context) (used, most uint64, err error)
	Progress Progress
}

// WritersResult counts the writes of concurrent writers, and the session entries that they took.
type WritersResult struct {
	Writers      int     `json:"writers"`
	Shards       int     `json:"shards"`
	Writes       uint64  `json:"writes"`        // that took effect
	Full         uint64  `json:"full"`          // refused for want of room
	Unknown      uint64  `json:"unknown"`       // outcomes
	SessionsUsed uint64  `json:"sessions_used"` // by the node with the most
	MaxSessions  uint64  `json:"max_sessions"`  // of a node
	Seconds      float64 `json:"seconds"`
	Chain        string  `json:"chain"`
	Host         Host    `json:"machine"`
}

const (
	writersKeys  = 16          // of each shard
	writersTries = time.Minute // for how long a writer tries a write
)

// Writers has concurrent writers, each with a client of its own, write once to each shard.
func Writers(ctx context.Context, o WritersOptions) (*WritersResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	clients := make([]*client.Client, 0, o.Writers)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for range o.Writers {
		c, err := client.New(client.Options{Cluster: o.Cluster, Attempt: time.Second, Timeout: writersTries})
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	keys, err := keysByShard(clients[0], o.Cluster.Shards)
	if err != nil {
		return nil, err
	}
	r := &WritersResult{Writers: o.Writers, Shards: o.Cluster.Shards, Chain: o.Chain, Host: ThisHost()}
	o.Progress.say("%d writers write to %d shards each", o.Writers, r.Shards)
	start := time.Now()
	group, running := errgroup.WithContext(ctx)
	for i, c := range clients {
		group.Go(func() error { return r.write(running, c, i, keys) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	r.SessionsUsed, r.MaxSessions, err = o.Sessions(ctx)
	return r, err
}

// Validate checks what the command line says.
func (o *WritersOptions) Validate() error {
	if o.Writers < 1 {
		return wrongOption("--writers: at least 1, not %d", o.Writers)
	}
	return nil
}

// keysByShard returns some keys of each shard.
func keysByShard(c *client.Client, shards int) ([][]string, error) {
	keys := make([][]string, shards)
	for i, missing := 0, shards*writersKeys; missing > 0; i++ {
		key := fmt.Sprintf("writers-%d", i)
		at, err := c.Locate(key)
		if err != nil {
			return nil, err
		}
		if own := &keys[at.Shard]; len(*own) < writersKeys {
			*own = append(*own, key)
			missing--
		}
	}
	return keys, nil
}

// write writes once to each shard. Writers begin at different shards.
func (r *WritersResult) write(ctx context.Context, c *client.Client, writer int, keys [][]string) error {
	for i := range keys {
		own := keys[(writer+i)%len(keys)]
		_, err := c.Put(ctx, own[writer%len(own)], []byte("written"))
		if err := r.count(err); err != nil {
			return err
		}
	}
	return nil
}

// count counts the outcome of a write; it returns an error that is none of a write's outcomes.
func (r *WritersResult) count(err error) error {
	switch {
	case err == nil:
		atomic.AddUint64(&r.Writes, 1)
	case errors.Is(err, client.ErrOutcomeUnknown):
		atomic.AddUint64(&r.Unknown, 1)
	case errors.Is(err, client.ErrFull):
		atomic.AddUint64(&r.Full, 1)
	default:
		return err
	}
	return nil
}

// Table implements [Report].
func (r *WritersResult) Table() ([]string, [][]string) {
	return []string{"writers", "shards", "writes", "full", "unknown", "sessions", "of", "seconds"}, [][]string{{
		fmt.Sprint(r.Writers), fmt.Sprint(r.Shards), fmt.Sprint(r.Writes), fmt.Sprint(r.Full), fmt.Sprint(r.Unknown),
		fmt.Sprint(r.SessionsUsed), fmt.Sprint(r.MaxSessions), fmt.Sprintf("%.1f", r.Seconds),
	}}
}

// Summary implements [Report].
func (r *WritersResult) Summary() string {
	return fmt.Sprintf("Each writer wrote once to each shard, with a client of its own; %s.\n%v", r.Chain, r.Host)
}
