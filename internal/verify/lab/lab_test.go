package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// patience bounds waits for packets that must arrive; silence bounds waits for packets that must
// not.
const (
	patience = 5 * time.Second
	silence  = 100 * time.Millisecond
)

// testName makes lab names unique per test process.
func testName(suffix string) string { return fmt.Sprintf("t%d%s", os.Getpid()%1_000_000, suffix) }

func mustUp(t *testing.T, o Options) *Lab {
	t.Helper()
	roottest.Need(t)
	l, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustDown(t, o.Name) })
	return l
}

func mustDown(t *testing.T, name string) {
	t.Helper()
	if _, err := Down(context.Background(), name); err != nil {
		t.Error(err)
	}
	assertClean(t, name)
}

// assertClean checks that no part of a lab remains on the machine.
func assertClean(t *testing.T, name string) {
	t.Helper()
	if left := namespaces(name); len(left) > 0 {
		t.Errorf("namespaces left: %v", left)
	}
	for i := range spineCount {
		if _, err := netlink.LinkByName(rootDevice(name, i)); err == nil {
			t.Errorf("device %s left", rootDevice(name, i))
		}
	}
	for _, path := range []string{dir(name), dataDir(name, ""), pinRoot + "/" + name} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s left", path)
		}
	}
}

// listen opens a UDP socket in a host.
func listen(t *testing.T, l *Lab, host string, port uint16) *net.UDPConn {
	t.Helper()
	h, err := l.Host(host)
	if err != nil {
		t.Fatal(err)
	}
	var conn *net.UDPConn
	err = l.Do(host, func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.Addr, port)))
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// arrives sends a datagram between two sockets and reports whether it arrived unchanged.
func arrives(t *testing.T, from, to *net.UDPConn, text string, wait time.Duration) bool {
	t.Helper()
	if _, err := from.WriteTo([]byte(text), to.LocalAddr()); err != nil {
		t.Logf("send: %v", err)
		return false
	}
	return receive(to, text, wait)
}

func receive(to *net.UDPConn, text string, wait time.Duration) bool {
	buffer := make([]byte, 2048)
	_ = to.SetReadDeadline(time.Now().Add(wait))
	n, _, err := to.ReadFrom(buffer)
	return err == nil && string(buffer[:n]) == text
}

func TestEveryHostReachesEveryOther(t *testing.T) {
	for _, topology := range []string{Line, LeafSpine, Fabric} {
		for nodes := 1; nodes <= 4; nodes++ {
			t.Run(fmt.Sprintf("%s-%d", topology, nodes), func(t *testing.T) {
				l := mustUp(t, Options{Name: testName("a"), Topology: topology, Nodes: nodes, Clients: 2, Direct: nodes == 2})
				assertMesh(t, l)
			})
		}
	}
}

func assertMesh(t *testing.T, l *Lab) {
	t.Helper()
	sockets := map[string]*net.UDPConn{}
	for _, h := range l.Plan.Hosts {
		sockets[h.Name] = listen(t, l, h.Name, 0)
	}
	large := strings.Repeat("x", mtuBytes-28) // IP and UDP headers
	for _, a := range l.Plan.Hosts {
		for _, b := range l.Plan.Hosts {
			apart := a.Role == RoleSpine && b.Role == RoleSpine && l.options.Topology == Fabric // no traffic between them
			if a.Name != b.Name && !apart && !arrives(t, sockets[a.Name], sockets[b.Name], large, patience) {
				t.Errorf("%s does not reach %s", a.Name, b.Name)
			}
		}
	}
}

func TestTCPCrossesTheLab(t *testing.T) {
	l := mustUp(t, Options{Name: testName("t"), Topology: Line, Nodes: 3, Clients: 1})
	var listener net.Listener
	tail, _ := l.Host("n3")
	err := l.Do("n3", func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(tail.Addr, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const bytes = 1 << 20
	received := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- -1
			return
		}
		defer conn.Close()
		total, buffer := 0, make([]byte, 1<<16)
		for err == nil {
			var n int
			n, err = conn.Read(buffer)
			total += n
		}
		received <- total
	}()
	var conn net.Conn
	if err := l.Do("c1", func() (err error) {
		conn, err = net.DialTimeout("tcp4", listener.Addr().String(), patience)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if n := <-received; n != bytes {
		t.Errorf("%d of %d bytes arrived", n, bytes)
	}
}

// withoutChecksum makes a socket send UDP checksums of zero, as nodes do.
func withoutChecksum(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}
