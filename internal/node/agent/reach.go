package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

const (
	// reachWithin is how long another node's data plane may take to answer.
	reachWithin = 200 * time.Millisecond
	// reachAgain is when a probe that was not answered is sent again.
	reachAgain = 50 * time.Millisecond
)

// probe looks whether this node reaches the data plane of another one, and tells the controllers if it does.
func (m *membership) probe(p *controllerv1.Probe) {
	addr, err := netip.ParseAddrPort(p.GetAddr())
	if err != nil {
		return
	}
	m.start(func(ctx context.Context) {
		if m.reaches(ctx, addr) {
			m.tell(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Reached{Reached: &controllerv1.Reached{Node: p.GetNode()}}})
		}
	})
}

// reaches reports whether another node's data plane answers this node.
func (m *membership) reaches(ctx context.Context, addr netip.AddrPort) bool {
	return reaches(ctx, addr, m.plane.Info().Options.Shards, m.tags.phase(), m.keys.Load())
}

func (a *Agent) reaches(ctx context.Context, addr netip.AddrPort) bool {
	if m := a.membership; m != nil {
		return m.reaches(ctx, addr)
	}
	return reaches(ctx, addr, a.options.Plane.Info().Options.Shards, a.tagPhase(), nil)
}

// reaches asks a data plane for an object that does not exist: any answer will do.
func reaches(ctx context.Context, addr netip.AddrPort, shards int, phase wire.Tags, keys *wire.Keyring) bool {
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return false
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	var random [24]byte
	_, _ = rand.Read(random[:])
	key := wire.Key{Hi: binary.BigEndian.Uint64(random[:]), Lo: binary.BigEndian.Uint64(random[8:])}
	question := wire.Message{
		Op: wire.OpRead, Key: key, Shard: key.Shard(shards), Request: binary.BigEndian.Uint64(random[16:]),
	}
	out, err := phase.Asking(keys).Append(question.Append(nil), wire.Ends{To: addr})
	if err != nil {
		return false
	}
	in := make([]byte, wire.MaxDatagramBytes)
	for end := time.Now().Add(reachWithin); time.Now().Before(end) && ctx.Err() == nil; {
		if _, err := socket.Write(out); err != nil {
			return false
		}
		_ = socket.SetReadDeadline(time.Now().Add(reachAgain))
		n, err := socket.Read(in)
		if err != nil {
			continue
		}
		var answer wire.Message
		message, ok := phase.OpenAnswer(keys, in[:n], wire.Ends{From: addr})
		if ok && wire.Peek(message, &answer) && answer.Op == wire.OpReply && answer.Request == question.Request {
			return true
		}
	}
	return false
}

// others lists the data planes of the other members of this node's chains.
func (s *service) others() (list []netip.AddrPort, err error) {
	info := s.plane.Info()
	for shard := range info.Options.Shards {
		config, err := s.plane.Config(uint16(shard))
		if err != nil {
			return nil, err
		}
		if config.State != chain.None {
			list = append(list, config.Members...)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.DeleteFunc(slices.Compact(list), func(addr netip.AddrPort) bool { return addr == info.Addr }), nil
}

// Reach implements the API.
func (s *service) Reach(ctx context.Context, _ *agentv1.ReachRequest) (*agentv1.ReachResponse, error) {
	others, err := s.others()
	if err != nil {
		return nil, statusOf(err)
	}
	answer := &agentv1.ReachResponse{Ways: make([]*agentv1.Way, len(others))}
	var asking sync.WaitGroup
	for i, addr := range others {
		asking.Go(func() { answer.Ways[i] = &agentv1.Way{Addr: addr.String(), Answers: s.agent.reaches(ctx, addr)} })
	}
	asking.Wait()
	return answer, nil
}
