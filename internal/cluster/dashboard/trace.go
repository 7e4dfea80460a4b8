package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/trace"
	"github.com/netcraq/netcraq/wire"
)

const (
	// traceWithin is how long a traced request may take.
	traceWithin = 2 * time.Second
	// ownKeys is the prefix of the keys that the page writes.
	ownKeys = "netcraq/dashboard/"
	// maxTries bounds the search for a key of a shard. With 65,536 shards, one in 50 million searches fails.
	maxTries = 1 << 20
)

// traced is the path of a request.
type traced struct {
	Path     []trace.Station `json:"path"`
	Hops     int             `json:"hops"`
	US       float64         `json:"elapsed_us"`
	Attempts int             `json:"attempts"`
	Version  uint64          `json:"version"`
	Shard    uint16          `json:"shard"`
	Epoch    uint32          `json:"epoch"`
	Chain    []string        `json:"chain"`
}

// traceRead reads a key and answers with the read's path. The value stays here.
func (s *Server) traceRead(w http.ResponseWriter, r *http.Request) {
	key, node := r.URL.Query().Get("key"), r.URL.Query().Get("node")
	s.trace(w, r, wire.OpRead, func(ctx context.Context, c *client.Client) (string, client.Result, error) {
		var options []client.ReadOption
		if node != "" {
			options = append(options, client.From(client.Named(node)))
		}
		result, err := c.Get(ctx, key, options...)
		return key, result, err
	})
}

// traceWrite writes a key of the page in the shard of the asked one, deletes it, and answers with the write's path.
func (s *Server) traceWrite(w http.ResponseWriter, r *http.Request) {
	if !s.collector.source.Writes {
		http.Error(w, "only netcraq dashboard --trace-writes follows writes", http.StatusForbidden)
		return
	}
	key := r.URL.Query().Get("key")
	s.trace(w, r, wire.OpPut, func(ctx context.Context, c *client.Client) (string, client.Result, error) {
		own, err := besideKey(c, key)
		if err != nil {
			return key, client.Result{}, err
		}
		result, err := c.Put(ctx, own, nil)
		if err == nil {
			_, err = c.Delete(ctx, own)
		}
		return own, result, err
	})
}

// besideKey returns a key of the page in the shard of a key.
func besideKey(c *client.Client, key string) (string, error) {
	wanted, err := c.Locate(key)
	if err != nil {
		return "", err
	}
	for i := range maxTries {
		own := fmt.Sprint(ownKeys, i)
		if at, err := c.Locate(own); err != nil || at.Shard == wanted.Shard {
			return own, err
		}
	}
	return "", fmt.Errorf("no key of the page is in shard %d", wanted.Shard)
}

// trace makes a request of an op, and answers with the path of the request for the key that it returns.
func (s *Server) trace(w http.ResponseWriter, r *http.Request, op wire.Op,
	request func(context.Context, *client.Client) (string, client.Result, error)) {
	s.collector.mu.Lock()
	c := s.collector.client
	s.collector.mu.Unlock()
	if c == nil {
		http.Error(w, "the cluster is not reached yet", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), traceWithin)
	defer cancel()
	key, result, err := request(ctx, c.Client)
	where, locateErr := c.Locate(key)
	if err != nil && !errors.Is(err, client.ErrNotFound) || locateErr != nil {
		http.Error(w, errors.Join(err, locateErr).Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(traced{ // the browser may be gone
		Path: trace.Path(op, result, where, err), Hops: result.Hops,
		US: float64(result.Elapsed.Nanoseconds()) / float64(time.Microsecond), Attempts: result.Attempts,
		Version: result.Version, Shard: result.Shard, Epoch: result.Epoch, Chain: where.Chain,
	})
}
