package agent

import (
	"bytes"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/wire"
)

// exportBytes is how much goes into one message, about.
const exportBytes = 8 << 10

// Export streams the objects and sessions of some shards. A receiver that is slow slows it down, not the data plane.
func (s *service) Export(in *agentv1.ExportRequest, stream grpc.ServerStreamingServer[agentv1.ExportResponse]) error {
	epochs, wanted := make(map[uint16]uint32), dataplane.Wanted{Since: make(map[uint16]uint32)}
	for _, group := range in.GetShards() {
		if err := checkShards(s.plane.Info().Options.Shards, group.GetShards()); err != nil {
			return err
		}
		for _, shard := range group.GetShards() {
			epochs[uint16(shard)], wanted.Since[uint16(shard)] = group.GetEpoch(), group.GetSince()
		}
	}
	for _, key := range in.GetKeys() {
		if len(key) != keyBytes {
			return status.Errorf(codes.InvalidArgument, "a key has %d bytes, not %d", keyBytes, len(key))
		}
		wanted.Keys = append(wanted.Keys, keyOf(key))
	}
	known := make(map[uint64][]byte, len(in.GetSessions()))
	for _, d := range in.GetSessions() {
		if len(d.GetDigest()) != digestBytes {
			return status.Error(codes.InvalidArgument, errDigest.Error())
		}
		known[d.GetSession()] = d.GetDigest()
	}
	if err := s.mayExport(epochs); err != nil {
		return err
	}
	if m := s.agent.membership; m != nil {
		if err := m.checkTarget(stream.Context(), epochs); err != nil {
			return err
		}
	}
	defer s.agent.membership.hurry(isUrgent(wanted.Since))()
	usage, err := s.plane.Usage()
	if err != nil {
		return statusOf(err)
	}
	x := &exporter{
		stream: stream, check: func() error { return s.mayExport(epochs) }, known: known,
		pace: newPace(in.GetMaxKibS(), restOf(wanted.Since)),
	}
	x.part.Total = uint64(usage.Objects)
	if err := s.plane.Export(wanted, x.object, x.session); err != nil {
		return statusOf(err)
	}
	if err := x.compare(); err != nil {
		return statusOf(err)
	}
	x.part.Complete = true
	return x.flush()
}

// mayExport reports why these shards must not be copied from here.
func (s *service) mayExport(epochs map[uint16]uint32) error {
	if m := s.agent.membership; m != nil && m.leaseLeft() <= 0 {
		return status.Error(codes.FailedPrecondition, "this node has no lease: the controllers may have taken it out of its chains")
	}
	for shard, epoch := range epochs {
		config, err := s.plane.Config(shard)
		if err == nil {
			err = reconfig.MayExport(shard, config, epoch)
		}
		if err != nil {
			return statusOf(err)
		}
	}
	return nil
}

// exporter gathers objects and sessions into messages.
type exporter struct {
	stream grpc.ServerStreamingServer[agentv1.ExportResponse]
	check  func() error // that the node is still one to copy from
	pace   pace
	part   agentv1.ExportResponse
	bytes  int

	known    map[uint64][]byte // digests of sessions that the receiver has, by session
	compared []dataplane.KeyedSession
}

func (x *exporter) object(k wire.Key, o chain.Object) error {
	x.part.Objects = append(x.part.Objects, &agentv1.ExportedObject{
		Key: bytesOf(k), Version: o.Version, Committed: o.Committed, Tombstone: o.Tombstone, Value: o.Value,
		Epoch: o.Epoch,
	})
	return x.add(reconfig.ObjectBytes + len(o.Value))
}

func exportedSession(k chain.SessionKey, s *chain.Session) *agentv1.ExportedSession {
	return &agentv1.ExportedSession{
		Session: k.Session, Shard: uint32(k.Shard), Seq: s.Seq, Version: s.Version, Result: s.Result, KeyLo: s.KeyLo,
		Op: uint32(s.Op), Status: uint32(s.Status),
	}
}

// session keeps an entry of a session that the receiver may have until all its entries can be compared.
func (x *exporter) session(k chain.SessionKey, s chain.Session) error {
	if x.known[k.Session] == nil {
		return x.sendSession(k, &s)
	}
	if x.compared = append(x.compared, dataplane.KeyedSession{Key: k, Session: s}); len(x.compared)%importAtOnce != 0 {
		return nil
	}
	return x.pace.wait(x.stream.Context(), 0)
}

func (x *exporter) sendSession(k chain.SessionKey, s *chain.Session) error {
	x.part.Sessions = append(x.part.Sessions, exportedSession(k, s))
	return x.add(reconfig.SessionBytes)
}

// compare sends the sessions that the receiver has not as they are here, and names the others.
func (x *exporter) compare() error {
	return eachSession(x.compared, func(entries []dataplane.KeyedSession) error {
		here, err := digestOf(entries)
		if err != nil {
			return err
		}
		if bytes.Equal(here.GetDigest(), x.known[here.GetSession()]) {
			x.part.SameSessions = append(x.part.SameSessions, here.GetSession())
			return x.add(sessionNumberBytes)
		}
		for i := range entries {
			if err := x.sendSession(entries[i].Key, &entries[i].Session); err != nil {
				return err
			}
		}
		return nil
	})
}

// sessionNumberBytes is the length of a session's number in a message.
const sessionNumberBytes = 8

func (x *exporter) add(bytes int) error {
	if x.bytes += bytes; x.bytes < exportBytes {
		return nil
	}
	return x.flush()
}

// flush sends the gathered entries, if the node may still be copied from: only a complete source may report a complete copy.
func (x *exporter) flush() error {
	if err := x.check(); err != nil {
		return err
	}
	if err := x.pace.wait(x.stream.Context(), x.bytes); err != nil {
		return err
	}
	err := x.stream.Send(&x.part)
	x.part, x.bytes = agentv1.ExportResponse{}, 0
	return err
}

// pace keeps a stream below a rate and makes it rest between steps. A node may run in the real-time class: without rests, a copy
// takes a CPU from all other processes of the machine. A machine that is short of CPU time wakes the stream late, and the
// stream then rests longer by that lateness.
type pace struct {
	kibS  uint32 // 0: no bound
	rest  scheduling.Pause
	start time.Time
	sent  int
	began time.Time     // when the work since the last wait began
	late  time.Duration // how late the last wait ended
}

// restOf returns the function for the pauses of a copy of shards. Pauses are shorter if only changes are copied.
func restOf(since map[uint16]uint32) scheduling.Pause {
	if isUrgent(since) {
		return scheduling.ShortRest
	}
	return scheduling.Rest
}

// isUrgent reports whether a copy is urgent: its receiver kept the shards, and so will soon be a full member again.
func isUrgent(since map[uint16]uint32) bool {
	for _, epoch := range since {
		if epoch != 0 {
			return true
		}
	}
	return false
}

// longestYield bounds the rest that is added for lateness, so that a copy goes on where the machine is always late.
const longestYield = 50 * time.Millisecond

func newPace(kibS uint32, rest scheduling.Pause) pace {
	now := time.Now()
	return pace{kibS: kibS, rest: rest, start: now, began: now}
}

// wait rests, and returns no earlier than the rate allows that many more bytes.
func (p *pace) wait(ctx context.Context, bytes int) error {
	pause := p.rest(time.Since(p.began)) + min(p.late, longestYield)
	if p.kibS > 0 {
		due := p.start.Add(time.Duration(float64(p.sent) / (float64(p.kibS) * 1024) * float64(time.Second)))
		p.sent += bytes
		pause = max(pause, time.Until(due))
	}
	until := time.Now().Add(pause)
	if err := scheduling.Wait(ctx, pause); err != nil {
		return err
	}
	p.began = time.Now()
	p.late = p.began.Sub(until)
	return nil
}
