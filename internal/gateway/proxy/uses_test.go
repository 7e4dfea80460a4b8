package proxy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/uses"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// TestReadsAtTheChainKeepAKey: clients read the object of a key at the chain, and no client reads the key through the
// gateway. A key that is read more often than another one takes that one's place. A gateway that does not ask the nodes
// gives up the wrong key.
func TestReadsAtTheChainKeepAKey(t *testing.T) {
	for name, asks := range map[string]bool{"asks the nodes": true, "counts alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, _ := softchain.StartWithAgents(t, 3, 1, 1000)
			chain := softchain.Connect(t, cluster)
			nodes := uses.New()
			nodes.Open(chain)
			t.Cleanup(func() { nodes.Close() })
			const value = "value"
			cache := Cache{Placement: placement.Defaults()}
			cache.Placement.Capacity = 2 * cache.Placement.Size(len(value))
			if asks {
				cache.Nodes = nodes
			}
			g := startCached(t, startEtcd(t), cluster, cache)
			for _, key := range []string{"hot", "cold", "rival"} {
				must(g.client.Put(t.Context(), key, value))(t)
			}
			g.hot(t, "hot")
			id := g.hot(t, "cold").Header.ClusterId
			rate := func(key string) float64 { return g.cache.Explain(key).ReadRate }
			object := fmt.Sprintf("etcd/%x/o/hot", id)
			const more = 20
			direct := func() {
				for range more {
					if _, err := chain.Get(t.Context(), object); err != nil && !errors.Is(err, client.ErrNotFound) { // it has no place any more
						t.Fatal(err)
					}
				}
			}
			if asks {
				eventually(t, "hot is known as such", func() bool {
					direct()
					return g.cache.Explain("hot").Switch.ReadRate > 2*rate("cold")
				})
			} else {
				eventually(t, "cold is read more often than hot through the gateway", func() bool {
					must(g.client.Get(t.Context(), "cold"))(t)
					return rate("cold") > 2*rate("hot")
				})
			}
			eventually(t, "the rival has a place", func() bool {
				direct()
				must(g.client.Get(t.Context(), "cold"))(t)
				for range more / 4 {
					must(g.client.Get(t.Context(), "rival"))(t)
				}
				return g.cache.Explain("rival").Placed
			})
			hot, cold := g.cache.Explain("hot"), g.cache.Explain("cold")
			if hot.Placed != asks || cold.Placed == asks {
				t.Errorf("hot: %v\ncold: %v", hot, cold)
			}
			if asks && hot.Source == placement.SourceGateway {
				t.Errorf("hot is of %q", hot.Source)
			}
		})
	}
}
