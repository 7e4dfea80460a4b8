package xdp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// TestOldPunt leaves a message unsent that has waited for an agent: its session may have been forgotten since.
func TestOldPunt(t *testing.T) {
	from, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	now := dataplane.BootTime()
	addr := to.LocalAddr().(*net.UDPAddr).AddrPort()
	punt := func(at uint64, text string) {
		h := nqPunt{AtNS: at, Addr: addr.Addr().Unmap().As4(), Port: be16(addr.Port()), MessageBytes: uint16(len(text))}
		sample, err := appendNative(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		sendPunt(append(sample, text...), &outlet{socket: from})
	}
	punt(now-uint64(2*maxPuntAge), "old")
	punt(now, "new")
	if err := to.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	n, err := to.Read(got)
	if err != nil || string(got[:n]) != "new" {
		t.Fatalf("the first message sent is %q, %v", got[:n], err)
	}
}

// TestAckIsPunted hands the agent an ACK whose next hop has no link address, so that the kernel finds it.
func TestAckIsPunted(t *testing.T) {
	roottest.Need(t)
	m, err := NewOffline(conformance.Me, conformance.Net)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Reset(chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4}); err != nil {
		t.Fatal(err)
	}
	config := chain.ShardConfig{
		Epoch: 1, State: chain.Active, Self: 2, Members: []netip.AddrPort{at(1), at(3), conformance.Me},
	}
	serveFirst(t, m, config)
	head := at(1).Addr().As4()
	err = m.do(func() error {
		return netlink.NeighDel(&netlink.Neigh{LinkIndex: m.ifindex, IP: head[:]})
	})
	if err != nil {
		t.Fatal(err)
	}
	ring, err := ringbuf.NewReader(m.objects.Punts)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	update := wire.Message{
		Op: wire.OpUpdate, Epoch: 1, Key: wire.Key{Hi: 1}, Session: 1, Seq: 1, Version: 1, Client: at(9), ClientOp: wire.OpPut,
	}
	in := frame.Append(nil, &frame.Packet{From: at(3), To: conformance.Me, Message: update.Append(nil)})
	if _, sent, err := m.Run(in); err != nil || len(sent) != 2 {
		t.Fatalf("%d frames sent, %v: want the answer and the replica's ACK", len(sent), err)
	}
	ring.SetDeadline(time.Now().Add(10 * time.Second))
	record, err := ring.Read()
	if err != nil {
		t.Fatal(err)
	}
	var got wire.Message
	if !wire.Peek(record.RawSample[16:16+wire.VersionBytes], &got) || got.Op != wire.OpAck || got.Version != 1 {
		t.Fatalf("punted: %+v", got)
	}
}
