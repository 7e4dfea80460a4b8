package agent

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/wire"
)

// stored is the data of a copy test: more than one message.
const stored = 900

// holder is a node in no cluster that is alone in all chains, with objects and sessions.
func holder(t *testing.T, state chain.State) (*soft.Plane, string) {
	t.Helper()
	plane := listen(t)
	configs := make(map[uint16]chain.ShardConfig)
	for shard := range uint16(shards) {
		configs[shard] = alone(plane, 2, state).Config
	}
	if err := plane.ConfigureAll(configs); err != nil {
		t.Fatal(err)
	}
	var objects []dataplane.KeyedObject
	var sessions []dataplane.KeyedSession
	for n := range uint64(stored) {
		objects = append(objects, dataplane.KeyedObject{Key: wire.Key{Hi: n, Lo: n}, Object: chain.Object{
			Version: n + 1, Committed: n + 1, Tombstone: n%7 == 0, Value: fmt.Append(nil, n),
		}})
		sessions = append(sessions, dataplane.KeyedSession{
			Key: chain.SessionKey{Session: n + 1, Shard: uint16(n % shards)}, Session: chain.Session{Seq: n + 1, Version: n,
				Op: wire.OpPut, KeyLo: n},
		})
	}
	if err := plane.Import(objects, sessions); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Name: "source", Plane: plane, API: "127.1.1.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	return plane, a.API()
}

// held orders a copy of some shards for the time after the present chain.
func held(source string, shards ...uint16) map[uint16]reconfig.ShardOrder {
	configs := make(map[uint16]reconfig.ShardOrder)
	for _, shard := range shards {
		configs[shard] = reconfig.ShardOrder{Config: chain.ShardConfig{Epoch: 2}, Source: source}
	}
	return configs
}

// learner starts a node that joins an office.
func learner(t *testing.T, o *office) (*soft.Plane, *call) {
	t.Helper()
	plane := listen(t)
	start(t, Options{Name: "a", Plane: plane, Join: joining(t, o)})
	return plane, o.next()
}

func copied(objects uint64, shards ...uint32) func(*controllerv1.Beat) bool {
	return func(b *controllerv1.Beat) bool {
		sum, complete := uint64(0), 0
		for _, c := range b.GetCopies() {
			sum += c.GetObjects()
			if c.GetComplete() {
				complete++
			}
		}
		return complete == len(shards) && sum == objects
	}
}

// TestCopy: some shards come whole, with tombstones and sessions, and nothing of the others does.
func TestCopy(t *testing.T) {
	source, api := holder(t, chain.Frozen)
	plane, c := learner(t, newOffice(t))
	c.order(reconfig.Order{Term: 1, Number: 1, Configs: held(api, 1, 3)})
	c.until("the copy is complete", copied(stored/2, 1, 3))
	for n := range uint64(stored) {
		key := wire.Key{Hi: n, Lo: n}
		want, _, err := source.Object(key)
		if err != nil {
			t.Fatal(err)
		}
		got, found, err := plane.Object(key)
		if err != nil || found != (n%2 == 1) {
			t.Fatalf("object %d: %v, %v", n, found, err)
		}
		if found && (got.Version != want.Version || got.Committed != want.Committed || got.Tombstone != want.Tombstone ||
			string(got.Value) != string(want.Value)) {
			t.Errorf("object %d is %+v, want %+v", n, got, want)
		}
	}
	usage, err := plane.Usage()
	if err != nil || usage.Sessions != stored/2 {
		t.Errorf("%+v, %v", usage, err)
	}
	// The chain that it waited for: the copy stays. Another one: the copy goes.
	member := chain.ShardConfig{Epoch: 3, State: chain.Frozen, Self: 1, Members: []netip.AddrPort{source.Addr(), plane.Addr()}}
	c.order(reconfig.Order{Term: 1, Number: 2, Configs: map[uint16]reconfig.ShardOrder{
		1: {Config: member}, 3: {Config: chain.ShardConfig{Epoch: 3}},
	}})
	c.done(1, 2)
	c.until("the shard that it left is wiped", func(b *controllerv1.Beat) bool { return b.GetWiping() == 0 })
	if usage, err := plane.Usage(); err != nil || usage.Objects != stored/4 || usage.Sessions != stored/4 {
		t.Errorf("%+v, %v", usage, err)
	}
}

// TestSameSessionsAreNotSent: of the sessions that a node gave up when it left, only those that its source has otherwise
// are sent; afterwards it has all those of the source, and no others.
func TestSameSessionsAreNotSent(t *testing.T) {
	const shard = 1
	source, api := holder(t, chain.Active)
	plane, c := learner(t, newOffice(t))
	order := func(number uint64, o reconfig.ShardOrder) {
		c.order(reconfig.Order{Term: 1, Number: number, Configs: map[uint16]reconfig.ShardOrder{shard: o}})
	}
	order(1, alone(plane, 1, chain.Active))
	c.done(1, 1)
	want := sessionsOf(t, source, shard)
	var here []dataplane.KeyedSession
	for k, s := range want {
		here = append(here, dataplane.KeyedSession{Key: k, Session: s})
	}
	here[0].Session.Seq++ // a write that only this node knows of
	here[0].Session.Status = wire.StatusCASFailed
	here[1].Key.Session += 1 << 32
	if err := plane.Import(nil, here); err != nil {
		t.Fatal(err)
	}
	order(2, reconfig.ShardOrder{Config: chain.ShardConfig{Epoch: 2}, Keep: true})
	c.done(1, 2)
	c.until("it has given up its sessions", func(b *controllerv1.Beat) bool { return b.GetWiping() == 0 })
	if got := sessionsOf(t, plane, shard); len(got) != 0 {
		t.Fatalf("%d sessions are left", len(got))
	}
	order(3, reconfig.ShardOrder{Config: chain.ShardConfig{Epoch: 2}, Source: api, Born: 1})
	bytes := uint64(0)
	c.until("the copy is complete", func(b *controllerv1.Beat) bool {
		complete := len(b.GetCopies()) == 1 && b.GetCopies()[0].GetComplete()
		if complete {
			bytes = b.GetCopies()[0].GetBytes()
		}
		return complete
	})
	if got := sessionsOf(t, plane, shard); !maps.Equal(got, want) {
		t.Errorf("%d sessions, want the %d of the source", len(got), len(want))
	}
	if bytes != 2*reconfig.SessionBytes {
		t.Errorf("%d bytes were copied, want those of 2 sessions of %d", bytes, len(want))
	}
}

func sessionsOf(t *testing.T, plane dataplane.Plane, shard uint16) map[chain.SessionKey]chain.Session {
	t.Helper()
	sessions := make(map[chain.SessionKey]chain.Session)
	err := plane.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if k.Shard == shard {
			sessions[k] = s
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return sessions
}

// breaking is an agent that exports through another, and dies in the middle the first times.
type breaking struct {
	agentv1.UnimplementedAgentServer
	source agentv1.AgentClient
	left   atomic.Int64 // times to break off
	early  bool         // without an error, but before all was said
}

func (b *breaking) Export(in *agentv1.ExportRequest, out grpc.ServerStreamingServer[agentv1.ExportResponse]) error {
	stream, err := b.source.Export(out.Context(), in)
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if b.left.Add(-1) >= 0 {
			part.Objects, part.Complete = part.Objects[:len(part.Objects)/2], false
			if err := out.Send(part); err != nil || b.early {
				return err
			}
			return status.Error(codes.Unavailable, "died")
		}
		if err := out.Send(part); err != nil {
			return err
		}
	}
}

// TestSourceDiesInTheMiddle: half a copy is never a complete one; the next attempt is.
func TestSourceDiesInTheMiddle(t *testing.T) {
	for _, early := range []bool{false, true} {
		_, api := holder(t, chain.Active)
		client, conn, err := Dial(api)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		broken := &breaking{source: client, early: early}
		broken.left.Store(2)
		listener, err := net.Listen("tcp", "127.1.1.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		agentv1.RegisterAgentServer(server, broken)
		go server.Serve(listener)
		t.Cleanup(server.Stop)
		plane, c := learner(t, newOffice(t))
		c.order(reconfig.Order{Term: 1, Number: 1, Configs: held(listener.Addr().String(), 0, 1, 2, 3)})
		c.until("the copy is complete", copied(stored, 0, 1, 2, 3))
		if usage, err := plane.Usage(); err != nil || usage.Objects != stored || broken.left.Load() >= 0 {
			t.Errorf("%+v, %v", usage, err)
		}
	}
}

// copyTo starts a node with tables of the given sizes, which copies shards 0 to 3 from the node at api.
func copyTo(t *testing.T, sizes chain.Options, api string) (*soft.Plane, *call) {
	t.Helper()
	plane, err := soft.Listen(netip.MustParseAddrPort("127.1.1.1:0"), sizes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plane.Close() })
	o := newOffice(t)
	start(t, Options{Name: "a", Plane: plane, Join: joining(t, o)})
	c := o.next()
	c.order(reconfig.Order{Term: 1, Number: 1, Configs: held(api, 0, 1, 2, 3)})
	return plane, c
}

// TestNoRoom: a node whose table is too small says why its copy is not complete.
func TestNoRoom(t *testing.T) {
	_, api := holder(t, chain.Active)
	small := testOptions
	small.MaxObjects = stored / 2
	plane, c := copyTo(t, small, api)
	c.until("it is refused", func(b *controllerv1.Beat) bool { return strings.Contains(b.GetRefused(), dataplane.ErrFull.Error()) })
	c.order(reconfig.Order{Term: 1, Number: 2, Configs: held("", 0, 1, 2, 3)})
	c.until("it is not asked for any more", func(b *controllerv1.Beat) bool { return b.GetRefused() == "" && b.GetWiping() == 0 })
	if usage, err := plane.Usage(); err != nil || usage.Objects+usage.Sessions != 0 {
		t.Errorf("%+v, %v", usage, err)
	}
}

// TestCopyWaitsForSessions: a copy that finds no room for sessions goes on when some were forgotten.
func TestCopyWaitsForSessions(t *testing.T) {
	_, api := holder(t, chain.Active)
	small := testOptions
	small.MaxSessions = stored * 3 / 4
	plane, c := copyTo(t, small, api)
	c.until("the table of sessions is full", func(*controllerv1.Beat) bool {
		usage, err := plane.Usage()
		return err != nil || usage.Sessions == small.MaxSessions
	})
	seqs := make(map[chain.SessionKey]uint64)
	err := plane.Sessions(func(k chain.SessionKey, s chain.Session) bool { seqs[k] = s.Seq; return true })
	for k, seq := range seqs {
		err = errors.Join(err, plane.DropSession(k, seq))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.until("the copy is complete", copied(stored, 0, 1, 2, 3))
}

// TestExportIsRefused: a node that is not a complete member in the epoch, or has no lease, exports nothing.
func TestExportIsRefused(t *testing.T) {
	_, api := holder(t, chain.Active)
	o := newOffice(t)
	plane := listen(t)
	joined := start(t, Options{Name: "a", Plane: plane, Join: joining(t, o)})
	c := o.next()
	inside := chain.ShardConfig{Epoch: 2, State: chain.Active, Learner: true, Self: 1, Members: []netip.AddrPort{
		netip.MustParseAddrPort("127.1.1.1:1"), plane.Addr(), netip.MustParseAddrPort("127.1.1.1:2"),
	}}
	c.order(reconfig.Order{Term: 1, Number: 1, Configs: map[uint16]reconfig.ShardOrder{0: alone(plane, 2, chain.Active), 1: {Config: inside}}})
	c.done(1, 1)
	alive, conn, err := Dial(api)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	check := func(client agentv1.AgentClient, epoch, shard uint32, want string) {
		t.Helper()
		stream, err := client.Export(t.Context(),
			&agentv1.ExportRequest{Shards: []*agentv1.ExportShards{{Epoch: epoch, Shards: []uint32{shard}}}})
		if err == nil {
			_, err = stream.Recv()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("shard %d in epoch %d: %v, want %q", shard, epoch, err, want)
		}
	}
	check(alive, 2, 0, "")
	check(alive, 3, 0, "is in epoch 2, not 3")
	check(alive, 2, shards, "there are 4")
	check(joined, 2, 0, "no lease")
	o.grants.Store(int64(testLease))
	eventually(t, "there is a lease", func() bool { return leaseLeft(t, joined) > 0 })
	check(joined, 2, 0, "")
	check(joined, 2, 1, "no complete member")
	check(joined, 2, 2, "no complete member")
}

// TestPace: the rate of an export is bounded, and a receiver that is gone ends the wait.
func TestPace(t *testing.T) {
	p := newPace(100, scheduling.Rest)
	for range 3 { // the first goes at once, each further 1 KiB 10 ms later
		if err := p.wait(t.Context(), 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(p.start); took < 20*time.Millisecond {
		t.Errorf("3 KiB left within %v", took)
	}
}

// TestPaceYields: a wait that ended late makes the next one longer by that, up to a bound.
func TestPaceYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noRest := func(time.Duration) time.Duration { return 0 }
		for late, want := range map[time.Duration]time.Duration{
			0: 0, 30 * time.Millisecond: 30 * time.Millisecond, time.Second: longestYield,
		} {
			p := newPace(0, noRest)
			p.late = late
			begin := time.Now()
			if err := p.wait(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("%v late: a rest of %v, want %v", late, took, want)
			}
			if p.late != 0 {
				t.Errorf("a wait that ended in time counts as %v late", p.late)
			}
		}
	})
}
