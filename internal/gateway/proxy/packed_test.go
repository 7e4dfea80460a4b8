package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// large is a value that fits no cell as it is: words that all values have, and some of its own.
func large(number int) string {
	rng := rand.New(rand.NewPCG(3, uint64(number)))
	var b bytes.Buffer
	for i := range 24 {
		fmt.Fprintf(&b, "f:metadata f:labels pod-template-hash: %x f:spec f:containers name: c%d image: registry/web:%d\n",
			rng.Uint32(), i, rng.IntN(9))
	}
	return b.String()
}

// TestLargeValuesArePacked has a gateway train a dictionary on what its clients write. Then it and another gateway answer reads of values
// that fit no cell from the chain, whichever of them wrote them.
func TestLargeValuesArePacked(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 4)
	direct, a := open(t, etcd), startCached(t, etcd, cluster, Cache{Placement: placement.Defaults()})
	if n := len(large(0)); n < 1500 {
		t.Fatalf("%d bytes fit a cell", n)
	}
	for i := range 100 {
		must(a.client.Put(t.Context(), fmt.Sprintf("many/%d", i), large(i)))(t)
	}
	awaitKeys(t, direct, "/netcraq/gateway/~dictionary/1", 1)
	b := startCached(t, etcd, cluster, Cache{Placement: placement.Defaults()})
	writers := []*cachedGateway{a, b}
	for i := range 6 {
		must(writers[i%2].client.Put(t.Context(), "big", large(1000+i)))(t)
		for _, g := range writers {
			if r := g.hot(t, "big"); len(r.Kvs) != 1 || string(r.Kvs[0].Value) != large(1000+i) || r.Kvs[0].Version != int64(i+1) {
				t.Fatalf("round %d: %v", i, r)
			}
		}
	}
	if r := must(a.client.Get(t.Context(), "/netcraq/gateway0"))(t); r.Count != 0 {
		t.Errorf("%v", r)
	}
}
