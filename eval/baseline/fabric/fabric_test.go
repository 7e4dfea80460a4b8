package fabric

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// port of the nodes of these tests.
const port = 9000

// function is a machine made of a function.
type function func(p baseline.Packet) []baseline.Packet

func (f function) Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet {
	return append(out, f(p)...)
}

// echo sends packets back, and says how many came.
func echo(count *int) Machine {
	return function(func(p baseline.Packet) []baseline.Packet {
		*count++
		return []baseline.Packet{p.Reply(p.Payload)}
	})
}

func open(t *testing.T) (*Fabric, *net.UDPConn) {
	t.Helper()
	roottest.Need(t)
	f, err := Open(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	conn, err := f.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return f, conn
}

// ask sends a packet to a node and reports whether an answer came in time.
func ask(t *testing.T, conn *net.UDPConn, at netip.Addr, patience time.Duration) bool {
	t.Helper()
	if _, err := conn.WriteToUDPAddrPort([]byte("?"), netip.AddrPortFrom(at, port)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	n, from, err := conn.ReadFromUDPAddrPort(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if err != nil || n != 1 || from != netip.AddrPortFrom(at, port) {
		t.Fatalf("%q from %v: %v", b[:n], from, err)
	}
	return true
}

// Times that only a broken network misses, and that silence is listened to.
const (
	soon    = 10 * time.Second
	silence = 30 * time.Millisecond
)

func TestPowerAndLoss(t *testing.T) {
	f, conn := open(t)
	count := 0
	f.Add(NodeAddr(0), echo(&count))
	if !ask(t, conn, NodeAddr(0), soon) {
		t.Fatal("no answer")
	}
	if ask(t, conn, NodeAddr(1), silence) {
		t.Error("an answer from a node that is not there")
	}
	f.Power(NodeAddr(0), false)
	if f.Alive(NodeAddr(0)) || ask(t, conn, NodeAddr(0), silence) {
		t.Error("an answer without power")
	}
	f.Power(NodeAddr(0), true)
	f.Lose(1)
	if ask(t, conn, NodeAddr(0), silence) {
		t.Error("an answer over links that lose everything")
	}
	f.Lose(0)
	if !ask(t, conn, NodeAddr(0), soon) || f.Err() != nil {
		t.Errorf("no answer after all that: %v", f.Err())
	}
	f.With(func() {
		if count != 2 {
			t.Errorf("%d packets came to the node, not 2", count)
		}
	})
}

// The middle sees every packet, and may send it elsewhere.
func TestMiddle(t *testing.T) {
	f, conn := open(t)
	count, passed := 0, 0
	f.Add(NodeAddr(1), function(func(p baseline.Packet) []baseline.Packet {
		count++
		return []baseline.Packet{p.Redirect(hostAddr, nil)} // dropped: the host has no socket on that port
	}))
	f.SetMiddle(function(func(p baseline.Packet) []baseline.Packet {
		passed++
		if p.To.Addr() == NodeAddr(0) {
			return []baseline.Packet{p.Redirect(NodeAddr(1), p.Payload)}
		}
		return []baseline.Packet{p}
	}))
	ask(t, conn, NodeAddr(0), silence)
	f.With(func() {
		if count != 1 || passed != 2 {
			t.Errorf("%d packets at the node, %d in the middle", count, passed)
		}
	})
}

// Packets that are sent in a circle end.
func TestCircle(t *testing.T) {
	f, conn := open(t)
	count := 0
	for i := range 2 {
		f.Add(NodeAddr(i), function(func(p baseline.Packet) []baseline.Packet {
			count++
			return []baseline.Packet{p.Redirect(NodeAddr(1-i), p.Payload)}
		}))
	}
	ask(t, conn, NodeAddr(0), silence)
	f.Add(NodeAddr(2), echo(new(int)))
	if !ask(t, conn, NodeAddr(2), soon) {
		t.Fatal("the network carries nothing any more")
	}
	f.With(func() {
		if count == 0 || count > maxCarried {
			t.Errorf("%d packets in a circle", count)
		}
	})
}
