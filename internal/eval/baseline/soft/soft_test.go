package soft_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/netchain"
	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/eval/baseline/soft"
)

// patience is how long a chain on loopback may take for anything.
const patience = 10 * time.Second

const chainLength = 3

// address is that of a node; network keeps runs of several processes apart.
func address(network byte, node int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, network, 88, byte(1 + node)})
}

// machine is the interface of both protocols' nodes.
type machine[S any] interface {
	soft.Machine
	State() (S, error)
}

// chain is a chain on sockets and the same chain in memory.
type chain[S any, M machine[S]] struct {
	port  uint16
	nodes []*soft.Node[M]
	twins map[netip.Addr]M
}

// open makes both chains in the first unused network.
func open[S any, M machine[S]](
	t *testing.T,
	port uint16,
	newNode func(network byte, node int) (M, error),
) *chain[S, M] {
	t.Helper()
	for network := byte(60); network < 250; network++ {
		c := &chain[S, M]{port: port, twins: make(map[netip.Addr]M)}
		err := c.fill(t, network, newNode)
		switch {
		case err == nil:
			return c
		case !errors.Is(err, unix.EADDRINUSE):
			t.Fatal(err)
		}
	}
	t.Fatal("no network is free")
	return nil
}

func (c *chain[S, M]) fill(t *testing.T, network byte, newNode func(network byte, node int) (M, error)) error {
	for i := range chainLength {
		one, err := newNode(network, i)
		if err != nil {
			return err
		}
		twin, err := newNode(network, i)
		if err != nil {
			return err
		}
		n, err := soft.Listen(t.Context(), netip.AddrPortFrom(address(network, i), c.port), one)
		if err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
		c.nodes = append(c.nodes, n)
		c.twins[address(network, i)] = twin
	}
	return nil
}

// exchange sends a payload to a node from a socket of its own and returns the answer.
func exchange(t *testing.T, to netip.AddrPort, payload []byte) (from netip.AddrPort, answer []byte) {
	t.Helper()
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	from = socket.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	// Answers come from the node at the chain's end, so the socket must not be tied to the one it asked.
	client, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(from))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.WriteToUDPAddrPort(payload, to); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2048)
	n, err := client.Read(buffer)
	if err != nil {
		t.Fatalf("%x to %v: %v", payload, to, err)
	}
	return from, buffer[:n]
}

// inMemory gives a payload to the twin of a node and returns the answer to the client.
func (c *chain[S, M]) inMemory(from, to netip.AddrPort, payload []byte) (answer []byte) {
	for flying := []baseline.Packet{{From: from, To: to, Payload: payload}}; len(flying) > 0; flying = flying[1:] {
		if p := flying[0]; p.To == from {
			answer = p.Payload
		} else {
			flying = append(flying, c.twins[p.To.Addr()].Receive(p, nil)...)
		}
	}
	return answer
}

// check sends the same packet to both chains and compares answers and states.
func (c *chain[S, M]) check(t *testing.T, to netip.AddrPort, payload []byte) {
	t.Helper()
	from, answer := exchange(t, to, payload)
	if want := c.inMemory(from, to, payload); !reflect.DeepEqual(answer, want) {
		t.Errorf("%x to %v: %x, want %x", payload, to, answer, want)
	}
	deadline := time.Now().Add(patience)
	for !c.alike(t) { // acknowledgements may still be on their way
		if time.Now().After(deadline) {
			t.Fatalf("%x to %v: the nodes on sockets know something else", payload, to)
		}
		runtime.Gosched()
	}
}

func (c *chain[S, M]) alike(t *testing.T) bool {
	t.Helper()
	same := true
	for _, n := range c.nodes {
		n.Do(func(m M) {
			is, err := m.State()
			want, wantErr := c.twins[stateSelf(is)].State()
			if err != nil || wantErr != nil {
				t.Fatal(err, wantErr)
			}
			same = same && reflect.DeepEqual(is, want)
		})
	}
	return same
}

// stateSelf is the address of the node that has a state.
func stateSelf(state any) netip.Addr {
	switch s := state.(type) {
	case netchain.State:
		return s.Self
	case netcraqpaper.State:
		return s.Self
	}
	return netip.Addr{}
}

func TestNetChain(t *testing.T) {
	const keys = 3
	c := open[netchain.State](t, netchain.Port, func(network byte, node int) (*netchain.Node, error) {
		n, err := netchain.New(netchain.Config{Self: address(network, node), Slots: keys, ValueBytes: 128, Groups: 1})
		for key := byte(0); err == nil && key < keys; key++ {
			err = n.Insert(netchain.Key{key}, 0, make([]byte, netchain.CompareBytes))
		}
		return n, err
	})
	rng := rand.New(rand.NewPCG(1, 1))
	network := c.network(t)
	head, tail := address(network, 0), address(network, chainLength-1)
	for range 200 {
		m := netchain.Message{
			Op:   netchain.Read,
			Key:  netchain.Key{byte(rng.IntN(keys + 1))},
			List: []netip.Addr{address(network, 1), head},
		}
		to := tail
		switch rng.IntN(3) {
		case 0:
			m.Op, m.Value, to = netchain.Write, make([]byte, rng.IntN(20)), head
		case 1:
			m.Op, m.Value, to = netchain.CAS, make([]byte, 2*netchain.CompareBytes), head
			m.Value[0], m.Value[netchain.CompareBytes] = byte(rng.IntN(2)), byte(rng.IntN(2))
		}
		if to == head {
			m.List = []netip.Addr{address(network, 1), tail}
		}
		c.check(t, netip.AddrPortFrom(to, netchain.Port), m.Append(nil))
	}
}

// network is the second byte of the nodes' addresses.
func (c *chain[S, M]) network(t *testing.T) byte {
	t.Helper()
	for a := range c.twins {
		return a.As4()[1]
	}
	return 0
}

func TestNetCRAQPaper(t *testing.T) {
	const keys = 3
	c := open[netcraqpaper.State](t, netcraqpaper.Port, func(network byte, node int) (*netcraqpaper.Node, error) {
		config := netcraqpaper.Config{
			Self:     address(network, node),
			Tail:     address(network, chainLength-1),
			Keys:     keys,
			Versions: netcraqpaper.DefaultVersions,
		}
		for other := range chainLength {
			if other != node {
				config.Group = append(config.Group, address(network, other))
			}
		}
		if node < chainLength-1 {
			config.Next = address(network, node+1)
		}
		return netcraqpaper.New(config)
	})
	rng := rand.New(rand.NewPCG(2, 1))
	network := c.network(t)
	for range 200 {
		m := netcraqpaper.Message{Op: netcraqpaper.Read, Key: rng.Uint32N(keys)}
		to := address(network, rng.IntN(chainLength))
		if rng.IntN(2) == 0 {
			m.Op, m.Value, to = netcraqpaper.Write, netcraqpaper.Value{byte(rng.Uint32())}, address(network, 0)
		}
		c.check(t, netip.AddrPortFrom(to, netcraqpaper.Port), m.Append(nil))
	}
}

// TestWhatIsNoMessage: a node answers nothing to it and goes on, on both its sockets.
func TestWhatIsNoMessage(t *testing.T) {
	c := open[netcraqpaper.State](t, netcraqpaper.Port, func(network byte, node int) (*netcraqpaper.Node, error) {
		self := address(network, node)
		return netcraqpaper.New(netcraqpaper.Config{Self: self, Tail: self, Keys: 1, Versions: 2})
	})
	network := c.network(t)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, network, 88, 200)})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, port := range []uint16{netcraqpaper.Port, netcraqpaper.Port + 1000} {
		for _, b := range [][]byte{nil, {1}, make([]byte, 1400)} {
			if _, err := socket.WriteToUDPAddrPort(b, netip.AddrPortFrom(address(network, 0), port)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := netcraqpaper.Message{Op: netcraqpaper.Write, Value: netcraqpaper.Value{7}}
	_, answer := exchange(t, netip.AddrPortFrom(address(network, 0), netcraqpaper.Port), m.Append(nil))
	if got, err := netcraqpaper.Decode(answer); err != nil || got.Op != netcraqpaper.Acknowledge ||
		got.Value != m.Value {
		t.Errorf("%+v, %v", got, err)
	}
}
