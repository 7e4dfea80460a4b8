package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, byte(i)}) }

// chainNode records the calls of a machine in order.
type chainNode struct {
	*netchain.Node
	log *[]string
}

func (n chainNode) SetRule(t netchain.Target, r netchain.Rule) error {
	*n.log = append(*n.log, fmt.Sprintf("%v %d", r.Action, t.Group))
	return n.Node.SetRule(t, r)
}

func (n chainNode) Export(keys []netchain.Key) (entries []Entry, err error) {
	for _, k := range keys {
		if c, ok := n.Lookup(k); ok {
			entries = append(entries, Entry{k, c.Seq, c.Value})
		}
	}
	return entries, nil
}

func (n chainNode) Import(entries []Entry) (err error) {
	for _, e := range entries {
		*n.log = append(*n.log, fmt.Sprintf("import %d", e.Key.Group(2)))
		err = errors.Join(err, n.Insert(e.Key, e.Seq, e.Value))
	}
	return err
}

// Each group is stopped, copied and moved before the next one begins, and the new node has the
// chain's objects.
func TestNetChainRecoversGroupByGroup(t *testing.T) {
	keys := []netchain.Key{{15: 0}, {15: 1}, {15: 2}}
	var log []string
	nodes := make(map[netip.Addr]NetChainSwitch)
	for i := 1; i <= 4; i++ {
		n, err := netchain.New(netchain.Config{Self: addr(i), Wide: true, Slots: 4, ValueBytes: 16, Groups: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if i > len(keys) { // the reserve has nothing
				continue
			}
			if err := n.Insert(k, 7, []byte{k[15], 9}); err != nil {
				t.Fatal(err)
			}
		}
		nodes[addr(i)] = chainNode{n, new([]string)}
	}
	head := chainNode{nodes[addr(1)].(chainNode).Node, &log}
	reserve := chainNode{nodes[addr(4)].(chainNode).Node, &log}
	nodes[addr(1)], nodes[addr(4)] = head, reserve
	c := &NetChain{
		Chain: []netip.Addr{
			addr(1),
			addr(2),
			addr(3),
		}, Groups: 2, Switches: nodes, Neighbours: []NetChainSwitch{head, nodes[addr(3)]},
		Keys: func(group uint16) []netchain.Key {
			return slices.DeleteFunc(slices.Clone(keys), func(k netchain.Key) bool { return k.Group(2) != group })
		},
	}
	if err := c.Failover(addr(2)); err != nil {
		t.Fatal(err)
	}
	if err := c.Recover(t.Context(), addr(2), addr(4), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"skip 0", "skip 1", "block 0", "import 0", "import 0", "replace 0", "block 1", "import 1", "replace 1",
	}
	if !slices.Equal(log, want) {
		t.Errorf("%v, not %v", log, want)
	}
	for _, k := range keys {
		if cell, ok := reserve.Lookup(k); !ok || cell.Seq != 7 || cell.Value[0] != k[15] {
			t.Errorf("key %x: %+v, %v", k, cell, ok)
		}
	}
	if err := c.Recover(t.Context(), addr(9), addr(4), nil); err == nil {
		t.Error("a node that is not in the chain was replaced")
	}
}

// netcraqPaperNode is the state of a switch, without the switch.
type netcraqPaperNode struct {
	next, tail netip.Addr
	group      []netip.Addr
	values     []netcraqpaper.Value
	fails      error
}

func (n *netcraqPaperNode) Configure(next, tail netip.Addr, group []netip.Addr) error {
	n.next, n.tail, n.group = next, tail, group
	return nil
}

func (n *netcraqPaperNode) Newest(from uint32, count int) ([]netcraqpaper.Value, error) {
	return n.values[from : int(from)+count], n.fails
}

func (n *netcraqPaperNode) Install(from uint32, values []netcraqpaper.Value) error {
	copy(n.values[from:], values)
	return nil
}

func TestNetCRAQPaperForbidsWritesWhileItCopies(t *testing.T) {
	const keys = 3 * chunk / 2
	nodes := make(map[netip.Addr]*netcraqPaperNode)
	switches := make(map[netip.Addr]NetCRAQPaperSwitch)
	for i := 1; i <= 4; i++ {
		nodes[addr(i)] = &netcraqPaperNode{values: make([]netcraqpaper.Value, keys)}
		switches[addr(i)] = nodes[addr(i)]
	}
	nodes[addr(1)].values[keys-1] = netcraqpaper.Value{5}
	var writes []bool
	c := &NetCRAQPaper{
		Chain:    []netip.Addr{addr(1), addr(2), addr(3)},
		Keys:     keys,
		Switches: switches,
		Disable: func(disabled bool) error {
			writes = append(writes, !disabled)
			return nil
		},
	}
	if err := c.Failover(addr(2)); err != nil || nodes[addr(1)].next != addr(3) ||
		!slices.Equal(nodes[addr(3)].group, []netip.Addr{addr(1)}) {
		t.Fatalf("%v: %+v, %+v", err, nodes[addr(1)], nodes[addr(3)])
	}
	nodes[addr(1)].fails = errors.New("out of order")
	if err := c.Recover(t.Context(), addr(4), 1); !errors.Is(err, nodes[addr(1)].fails) || len(c.Chain) != 2 {
		t.Fatalf("a copy that failed: %v, chain %v", err, c.Chain)
	}
	nodes[addr(1)].fails = nil
	if err := c.Recover(t.Context(), addr(4), 1); err != nil {
		t.Fatal(err)
	}
	if n := nodes[addr(4)]; n.values[keys-1] != (netcraqpaper.Value{5}) || n.next != addr(3) ||
		nodes[addr(1)].next != addr(4) ||
		len(nodes[addr(3)].group) != 2 {
		t.Errorf("%+v", n)
	}
	if !slices.Equal(writes, []bool{false, true, false, true}) {
		t.Errorf("writes were allowed: %v", writes)
	}
}

// Only a node that is silent for the whole time is suspected.
func TestWatch(t *testing.T) {
	ears, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ears.Close()
	mouth, err := net.DialUDP("udp4", nil, ears.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer mouth.Close()
	began := time.Now().Add(-time.Hour)
	heard := listen(began, 3)
	for _, b := range [][]byte{BeatBytes(0), BeatBytes(2), []byte("noise"), BeatBytes(1000)} {
		if _, err := mouth.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := ears.SetReadDeadline(began); err != nil { // it has passed, and the heartbeats have arrived
		t.Fatal(err)
	}
	if err := heard.drain(ears, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if place, until := heard.first(); place != 1 || !until.Equal(began.Add(2*Suspect)) {
		t.Errorf("node %d fails first, at %v", place, until.Sub(began))
	}
	heard.note(began.Add(3*Suspect), BeatBytes(1))
	if place, until := heard.first(); place != 1 || !until.Equal(began.Add(4*Suspect)) {
		t.Errorf("node %d fails first, %v after it was heard", place, until.Sub(began)-3*Suspect)
	}
	if silent, err := Watch(t.Context(), ears, 1); err != nil || silent != 0 {
		t.Errorf("%d, %v", silent, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Watch(ctx, ears, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("a controller that was told to end: %v", err)
	}
}
