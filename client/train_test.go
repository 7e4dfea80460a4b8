package client

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/wire"
)

// lengthsOfTrains couples datagrams of some items each, all to one node unless another is given, and returns how many
// are in each train.
func lengthsOfTrains(t *testing.T, c *Client, items []int, change func(*outgoing)) []int {
	t.Helper()
	out := newOutgoing(0)
	node := c.view.Load().nodes["n1"]
	ways := &node.ways[0]
	ways.reads.answered()
	ways.trains.answered()
	for n, count := range items {
		d := &out.datagrams[n]
		d.to, d.way, d.slotBytes, d.items = node, &ways.reads, wire.SlotFor(wire.ChainBytes), make([]item, count)
	}
	out.n = len(items)
	change(out)
	out.couple(time.Now(), true)
	var counts []int
	for _, train := range out.trains[:out.coupled] {
		counts = append(counts, len(train))
	}
	return counts
}

func TestTrains(t *testing.T) {
	c := twoChains(t)
	nothing := func(*outgoing) {}
	n1, n2 := c.view.Load().nodes["n1"], c.view.Load().nodes["n2"]
	for _, test := range []struct {
		name   string
		items  []int
		change func(*outgoing)
		want   []int
	}{
		{"one", []int{14}, nothing, []int{1}},
		{"the last is shorter", []int{14, 14, 6}, nothing, []int{3}},
		{"none follows a shorter one", []int{14, 6, 6, 14}, nothing, []int{2, 1, 1}},
		{"a longer one", []int{6, 14, 14}, nothing, []int{1, 2}},
		{"no bundles", []int{1, 1, 14, 14, 1}, nothing, []int{1, 1, 2, 1}},
		{"long ones", slices.Repeat([]int{14}, 60), nothing, []int{46, 14}},
		{"two nodes", []int{14, 14, 14, 14}, func(o *outgoing) {
			for _, n := range []int{1, 3} {
				o.datagrams[n].to = n2
			}
			n2.ways[0].trains.answered()
		}, []int{2, 2}},
		{"not yet proven", []int{14, 14, 14, 14, 14}, func(*outgoing) { n1.ways[0].trains = batching{} }, []int{2, 1, 1, 1}},
		{"bundles not yet proven", []int{14, 14}, func(*outgoing) { n1.ways[0].reads = batching{} }, []int{1, 1}},
		{"refused a moment ago", []int{14, 14}, func(*outgoing) { n1.ways[0].refused = time.Now() }, []int{1, 1}},
	} {
		if got := lengthsOfTrains(t, c, test.items, test.change); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Only bundles behind the first tell whether trains pass: without a cut, a node sees the first alone.
func TestProofOfTrains(t *testing.T) {
	c := twoChains(t)
	var out *outgoing
	lengthsOfTrains(t, c, []int{14, 14, 14}, func(o *outgoing) { out = o })
	node := c.view.Load().nodes["n1"]
	for n, want := range []*batching{&node.ways[0].reads, &node.ways[0].trains, &node.ways[0].trains} {
		if out.datagrams[n].way != want {
			t.Errorf("bundle %d tells of another way", n)
		}
	}
}

// Operations give the same results whether the kernel cuts trains or refuses to.
func TestTrainsOfRealKernel(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		t.Run(fmt.Sprint("refused: ", refuse), func(t *testing.T) {
			c, ctx := newClient(t, patient(startCluster(t, 3, 1).cluster)), soon(t)
			p, err := c.pipes.first(c)
			if err != nil {
				t.Fatal(err)
			}
			if !p.trains {
				t.Skip("the kernel does not know UDP_SEGMENT")
			}
			if refuse {
				withoutChecksums(t, p)
			}
			var keys []string
			var puts []Op
			for i := range 1000 {
				keys = append(keys, fmt.Sprint("key ", i))
				puts = append(puts, PutOp(keys[i], []byte(keys[i])))
			}
			for range 3 { // first bundles prove to pass, then trains
				for i, o := range c.Do(ctx, puts) {
					if o.Err != nil {
						t.Fatalf("put %d: %v", i, o.Err)
					}
				}
				for i, o := range c.GetMany(ctx, keys) {
					if o.Err != nil || string(o.Value) != keys[i] {
						t.Fatalf("get %d: %q, %v", i, o.Value, o.Err)
					}
				}
			}
			traffic := c.Traffic()
			t.Logf("%+v", traffic)
			switch nodes := uint64(len(c.view.Load().nodes)); {
			case refuse && (traffic.Refused == 0 || traffic.Refused > nodes || traffic.Trains != traffic.Refused):
				t.Errorf("%+v: want one refusal for each of %d nodes at most", traffic, nodes)
			case !refuse && (traffic.Trains == 0 || traffic.Refused != 0):
				t.Errorf("%+v: want trains and no refusal", traffic)
			}
		})
	}
}

// withoutChecksums has the kernel refuse trains, as it does for a device without checksums.
func withoutChecksums(t *testing.T, p *pipeline) {
	t.Helper()
	raw, err := p.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}
