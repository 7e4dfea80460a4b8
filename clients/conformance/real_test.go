package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// randomFaults lose, repeat and delay requests and answers, of one counter and of one key: each addition counts once.
func randomFaults(t *testing.T, d *driver) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	open3(t, d, func(w *world, r *request) {
		if random.IntN(4) == 0 {
			return
		}
		m := w.execute(r)
		if random.IntN(8) == 0 {
			m = w.execute(r) // the request came twice
		}
		switch random.IntN(4) {
		case 0:
		case 1:
			w.keep(r, m)
		default:
			w.answer(r, m)
		}
		if len(w.kept) > random.IntN(4) {
			w.release()
		}
	})
	for want := int64(1); want <= 40; want++ {
		if o := d.do(t, "add key=00 delta=1"); o.Errors != nil || o.Counter != want {
			t.Fatalf("%+v: the sum is %d", o, want)
		}
		must(t, d.do(t, "put key=01 value=%02x", want), uint64(want))
	}
}

// object is what a model knows of a key.
type object struct {
	value   string
	version uint64
	exists  bool
}

// model executes random operations of one client, the only one that uses its keys, and compares the outcomes.
type model struct {
	t       *testing.T
	d       *driver
	random  *rand.Rand
	objects map[string]*object
}

func (m *model) step() {
	key := fmt.Sprint(m.d.language, m.random.IntN(8))
	o := m.objects[key]
	if o == nil {
		o = new(object)
		m.objects[key] = o
	}
	value := fmt.Sprintf("%0*d", m.random.IntN(200)+1, m.random.Uint32())
	switch m.random.IntN(5) {
	case 0:
		must(m.t, m.d.do(m.t, "put key=%s value=%s", hexOf(key), hexOf(value)), o.version+1)
		*o = object{value, o.version + 1, true}
	case 1:
		must(m.t, m.d.do(m.t, "delete key=%s", hexOf(key)), o.version+1)
		*o = object{"", o.version + 1, false}
	case 2:
		m.cas(key, value, o)
	default:
		got := m.d.do(m.t, "get key=%s", hexOf(key))
		if !o.exists {
			mustFail(m.t, got, "not_found")
		} else if got.Errors != nil || got.Value != hexOf(o.value) || got.Version != o.version {
			m.t.Fatalf("%+v, and it is %+v", got, o)
		}
	}
}

func (m *model) cas(key, value string, o *object) {
	expected := o.version
	if !o.exists {
		expected = 0
	}
	if m.random.IntN(2) == 0 {
		got := m.d.do(m.t, "cas key=%s expected=%d value=%s", hexOf(key), o.version+7, hexOf(value))
		mustFail(m.t, got, "cas_failed")
		if got.Version != o.version || got.Value != hexOf(o.value) {
			m.t.Fatalf("%+v, and it is %+v", got, o)
		}
		return
	}
	must(m.t, m.d.do(m.t, "cas key=%s expected=%d value=%s", hexOf(key), expected, hexOf(value)), o.version+1)
	*o = object{value, o.version + 1, true}
}

// startDrivers starts the drivers of all languages.
func startDrivers(t *testing.T) (all []*driver) {
	for _, l := range languages {
		all = append(all, startDriver(t, l))
	}
	return all
}

// addAll has all drivers add to one counter at once, and checks that every addition counts once.
func addAll(t *testing.T, all []*driver, each int, during func()) {
	sums := make([][]int64, len(all))
	var group sync.WaitGroup
	for i, d := range all {
		sums[i] = make([]int64, each)
		group.Go(func() {
			for n := range each {
				o := d.do(t, "add key=%s delta=1", hexOf("all"))
				if sums[i][n] = o.Counter; o.Errors != nil {
					t.Errorf("%s: %+v", d.language, o)
					return
				}
			}
		})
	}
	during()
	group.Wait()
	seen := slices.Sorted(slices.Values(slices.Concat(sums...)))
	for i, sum := range seen {
		if sum != int64(i+1) {
			t.Fatalf("%d additions have the sums %v", len(seen), seen)
		}
	}
}

// TestRealChain: the clients and a chain of nodes on sockets.
func TestRealChain(t *testing.T) {
	path := clitest.WriteCluster(t, softchain.Start(t, 3, 4, 1000))
	all := startDrivers(t)
	seed := seedtest.Seed(t)
	for _, d := range all {
		if o := d.do(t, "open cluster=%s attempt=50 timeout=%d", path, plenty); o.Errors != nil {
			t.Fatal(o.Text)
		}
		m := &model{t, d, rand.New(rand.NewPCG(seed, 1)), make(map[string]*object)}
		for range 200 {
			m.step()
		}
	}
	addAll(t, all, 50, func() {})
}

// TestRealCluster: the clients follow a cluster with a controller in which a node is killed.
func TestRealCluster(t *testing.T) {
	const host = "127.66.34.1"
	m := clitest.StartManaged(t, host, "--shards", "4", "--replicas", "3")
	names := []string{"n1", "n2", "n3"}
	for i, name := range names {
		m.StartNode(name, fmt.Sprintf("127.66.34.%d:4411", i+2))
	}
	m.Await("the chains", clitest.FullyReplicated(len(names)))
	all := startDrivers(t)
	for _, d := range all {
		if o := d.do(t, "open controllers=%s attempt=50 timeout=%d", m.Controller, plenty); o.Errors != nil {
			t.Fatal(o.Text)
		}
	}
	addAll(t, all, 30, func() {
		clitest.Kill(m.Nodes["n2"])
		m.Await("chains without n2", func(now *topology.Map) bool { return !clitest.Serves(now, "n2") })
	})
}
