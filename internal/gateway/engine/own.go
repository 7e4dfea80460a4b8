package engine

import (
	"maps"
	"strings"
	"sync"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// ownWrites counts the requests of the core that change the gateways' own keys in etcd, by the kind of the key.
type ownWrites struct {
	mu    sync.Mutex
	kinds map[string]uint64
}

// count counts a request, if it is one of these.
func (o *ownWrites) count(r *core.Request) {
	key := ""
	switch {
	case r.Txn != nil:
		return
	case len(r.Put) > 0:
		key = r.Put[0].Key
	case len(r.Delete) > 0:
		key = r.Delete[0]
	default:
		return
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, OwnPrefix), "/")
	kind, _, _ = strings.Cut(kind, ".") // the count of the directory
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds == nil {
		o.kinds = make(map[string]uint64)
	}
	o.kinds[kind]++
}

// OwnWrites counts the gateway's writes of its own keys in etcd since the start: of its session, its bit, its acknowledgements
// and the directory.
func (e *Engine) OwnWrites() map[string]uint64 {
	e.own.mu.Lock()
	defer e.own.mu.Unlock()
	return maps.Clone(e.own.kinds)
}
