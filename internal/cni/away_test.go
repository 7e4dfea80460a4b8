package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/wire"
)

const (
	headAddr   = "10.99.0.2"
	bridgeAddr = "10.88.0.1"
	podAddr    = "10.88.0.2"
)

// head is another machine, whose node is the head of the chain.
type head struct {
	*pod
	addr netip.AddrPort
	conn *net.UDPConn
}

// newHead makes the machine at the other end of the uplink.
func newHead(t *testing.T) *head {
	t.Helper()
	h := &head{pod: newPod(t, "head"), addr: netip.AddrPortFrom(netip.MustParseAddr(headAddr), wire.Port)}
	far, err := netlink.LinkByName("up1")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := thread.OpenNamespace(h.netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	err = errors.Join(netlink.LinkSetNsFd(far, int(ns.Fd())), h.thread.Do(func() (err error) {
		far, err := netlink.LinkByName("up1")
		if err == nil {
			err = errors.Join(netlink.LinkSetUp(far), addAddress("up1", headAddr+"/24"),
				netlink.RouteAdd(&netlink.Route{LinkIndex: far.Attrs().Index, Gw: net.ParseIP(nodeAddr)}))
		}
		if err == nil {
			h.conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(h.addr))
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.conn.Close() })
	return h
}

// onBridge joins a pod as the plugin bridge does, and returns its socket.
func (p *pod) onBridge() *net.UDPConn {
	p.t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = "cni0"
	port := p.connect("veth" + p.name)
	l, err := netlink.LinkByName(port)
	if err != nil {
		p.t.Fatal(err)
	}
	var conn *net.UDPConn
	err = errors.Join(netlink.LinkAdd(bridge), addAddress("cni0", bridgeAddr+"/24"), netlink.LinkSetUp(bridge),
		netlink.LinkSetMaster(l, bridge), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		p.thread.Do(func() error {
			l, err := netlink.LinkByName("eth0")
			if err == nil {
				err = errors.Join(addAddress("eth0", podAddr+"/24"),
					netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.ParseIP(bridgeAddr)}))
			}
			if err == nil {
				conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(podAddr+":0")))
			}
			return err
		}))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return conn
}

// receive returns the next message for which want is true, and its sender.
func receiveFrom(conn *net.UDPConn, want func(*wire.Message) bool) (m wire.Message, from netip.AddrPort, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return m, from, err
	}
	buffer := make([]byte, wire.MaxDatagramBytes)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return m, from, err
		}
		m = wire.Message{}
		if wire.Peek(buffer[:n], &m) && want(&m) {
			return m, from, nil
		}
	}
}

// TestWriteWhileAgentAway: the node is a chain's tail, and no agent runs. A write of a pod on the bridge of its machine
// is answered, and acknowledged to the head, also if it is repeated.
func TestWriteWhileAgentAway(t *testing.T) {
	for _, mode := range []xdp.Mode{xdp.Native, xdp.Generic} {
		t.Run(string(mode), func(t *testing.T) {
			onMachine(t, func(t *testing.T) {
				m := newMachine(t)
				m.mode = mode
				h := newHead(t)
				m.members = []netip.AddrPort{h.addr, m.addr}
				m.start()
				client := newPod(t, "client").onBridge()
				m.stop()
				to := client.LocalAddr().(*net.UDPAddr).AddrPort()
				for seq := uint64(1); seq <= 3; seq++ {
					op, value := wire.OpPut, []byte("value")
					if seq == 2 {
						op, value = wire.OpAdd, []byte{0, 0, 0, 0, 0, 0, 0, 7}
					}
					update := wire.Message{Op: wire.OpUpdate, Epoch: 1, Request: seq, Key: wire.Key{Hi: 1, Lo: seq << 8},
						Session: 9, Seq: seq, Version: 1, Client: to, ClientOp: op, Value: value}
					for range 2 {
						if err := exchange(h, client, m.addr, &update); err != nil {
							t.Fatalf("write %d: %v", seq, err)
						}
					}
				}
			})
		})
	}
}

// exchange sends an UPDATE as the head until the client has the answer and the head its ACK.
func exchange(h *head, client *net.UDPConn, node netip.AddrPort, update *wire.Message) error {
	answered, acknowledged := false, false
	for end := time.Now().Add(within); time.Now().Before(end); {
		if _, err := h.conn.WriteToUDPAddrPort(update.Append(nil), node); err != nil {
			return err
		}
		isOurs := func(m *wire.Message) bool { return m.Request == update.Request }
		if !acknowledged {
			if m, _, err := receiveFrom(h.conn, isOurs); err == nil {
				if m.Op != wire.OpAck || m.Version != update.Version {
					return fmt.Errorf("the head got %+v", m)
				}
				acknowledged = true
			}
		}
		if !answered {
			if m, from, err := receiveFrom(client, isOurs); err == nil {
				if m.Op != wire.OpReply || m.Status() != wire.StatusOk || m.Version != update.Version || from != node {
					return fmt.Errorf("the client got %+v from %v", m, from)
				}
				answered = true
			}
		}
		if answered && acknowledged {
			return nil
		}
	}
	return fmt.Errorf("answered: %v, acknowledged: %v", answered, acknowledged)
}
