package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// proposeWithin bounds how long a proposal waits for a leader.
const proposeWithin = time.Second

// newLife draws the number of a life. It is not 0.
func newLife() uint64 {
	var draw [8]byte
	rand.Read(draw[:]) // never fails
	return max(1, binary.BigEndian.Uint64(draw[:]))
}

// bootTime is a clock that counts while the machine is suspended, in nanoseconds.
func bootTime() int64 { return int64(dataplane.BootTime()) }

// look returns the applied state of the own server.
func (e *Engine) look() core.Sample {
	s := core.Sample{Asked: bootTime()}
	for _, m := range e.o.Server.Cluster().Members() {
		s.Members = append(s.Members, core.Member{ID: uint64(m.ID), Record: member.SaidIn(m.ClientURLs).Record})
	}
	s.Applied = member.Applied(e.o.Server)
	return s
}

// sample tells the machine what the own server has applied.
func (e *Engine) sample() {
	e.do(func(int64) {
		s := e.look()
		e.machine.Applied(bootTime(), s)
	})
	e.tell()
}

// follow takes a sample after each entry that the server applies, or after several. While reads are fast, nothing waits
// for a change of the records, and each look would wake the process.
func (e *Engine) follow() {
	for {
		index := e.o.Server.AppliedIndex()
		e.sample()
		pause := sampleEvery
		if e.Status().Reading {
			pause = every
		}
		if !retry.Sleep(e.ctx, pause) {
			return
		}
		select {
		case <-e.o.Server.ApplyWait(index + 1):
		case <-e.ctx.Done():
			return
		}
	}
}

// tick lets time pass for the machine.
func (e *Engine) tick() {
	told := make(map[types.ID]member.Said)
	for retry.Sleep(e.ctx, every) {
		e.sample()
		e.do(func(now int64) { e.machine.Tick(now) })
		e.tellVersions(told)
	}
}

// renew asks etcd for a moment that is not older than the call.
func (e *Engine) renew() {
	asked := bootTime()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.TTL/2)
	defer cancel()
	err := e.o.Server.LinearizableReadNotify(ctx)
	e.do(func(int64) {
		s := e.look()
		e.machine.Renewed(bootTime(), asked, s, err == nil)
	})
}

// propose sends proposals in their order.
func (e *Engine) propose() {
	for {
		select {
		case r := <-e.records:
			if err := e.send(r); err != nil {
				e.o.Log.Debug("a record was not proposed", "reason", err)
			}
		case <-e.ctx.Done():
			return
		}
	}
}

// send proposes a record of the own member as a change of its attributes. Nobody answers.
func (e *Engine) send(r core.Record) error {
	self := e.o.Server.Cluster().Member(e.o.Server.MemberID())
	if self == nil {
		return nil // removed: etcd would panic
	}
	entry, err := proto.Marshal(&pb.InternalRaftRequest{
		Header: &pb.RequestHeader{ID: e.o.Server.NextRequestID()},
		ClusterMemberAttrSet: &membershippb.ClusterMemberAttrSetRequest{
			Member_ID: uint64(self.ID),
			MemberAttributes: &membershippb.Attributes{
				Name: self.Name, ClientUrls: member.WithRecord(self.ClientURLs, r, e.o.Version),
			},
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.ctx, proposeWithin)
	defer cancel()
	id := uint64(self.ID)
	return e.o.Server.Process(ctx, &raftpb.Message{
		Type: raftpb.MsgProp.Enum(), From: &id, To: &id, Entries: []*raftpb.Entry{{Data: entry}},
	})
}

// tell logs that fast reads have begun or ended, and why they do not begin.
func (e *Engine) tell() {
	e.mu.Lock()
	s := e.machine.Status(bootTime())
	before := e.phase
	e.phase = s
	e.mu.Unlock()
	switch on := s.State.Phase == core.On; {
	case on == (before.State.Phase == core.On) && (!on || s.State.View == before.State.View):
	case on:
		e.o.Log.Info("linearizable reads are answered through the chain", "view", s.State.View)
	default:
		e.o.Log.Info("linearizable reads are answered by etcd", "view", before.State.View)
	}
	if s.Taken == 1 && before.Taken == 0 {
		e.o.Log.Warn("somebody else writes this member's object in the chain, so etcd answers reads: clusters with the same "+
			"--initial-cluster and --initial-cluster-token cannot share a chain", "object", e.key(uint64(e.o.Server.MemberID())))
	}
	if long := int64(2 * e.o.TTL); s.LacksFor >= long && before.LacksFor < long {
		e.o.Log.Warn("the chain does not have another member's object, so etcd answers reads: all members have to use the same chain",
			"member", e.name(s.Lacks), "object", e.key(s.Lacks))
	}
}

// tellVersions logs the members that have another version, each once. told has what it knew of them.
func (e *Engine) tellVersions(told map[types.ID]member.Said) {
	for _, m := range e.o.Server.Cluster().Members() {
		said := member.SaidIn(m.ClientURLs)
		said.Record = core.Record{}
		if !e.another(m.ID, said) || told[m.ID] == said {
			continue
		}
		told[m.ID] = said
		if said.Unknown {
			e.o.Log.Warn("this version cannot read what another member says, so etcd answers reads: "+
				"run the same version at all members", "member", m.Name, "its_version", versionOf(said), "own_version", e.o.Version)
			continue
		}
		e.o.Log.Info("another member has another version", "member", m.Name, "its_version", said.Version,
			"own_version", e.o.Version)
	}
}

// another reports whether a member that names its version, or says what this version cannot read, has another one.
func (e *Engine) another(id types.ID, said member.Said) bool {
	return id != e.o.Server.MemberID() && (said.Unknown || said.Version != "" && said.Version != e.o.Version)
}

// versionOf returns the version that a member names.
func versionOf(s member.Said) string { return cmp.Or(s.Version, "unknown") }

// Versions returns the version of this server's program, and those of the members that have another one, by name.
func (e *Engine) Versions() (own string, others map[string]string) {
	others = make(map[string]string)
	for _, m := range e.o.Server.Cluster().Members() {
		if said := member.SaidIn(m.ClientURLs); e.another(m.ID, said) {
			others[m.Name] = versionOf(said)
		}
	}
	return e.o.Version, others
}

// name returns the name of a member.
func (e *Engine) name(id uint64) string {
	if m := e.o.Server.Cluster().Member(types.ID(id)); m != nil {
		return m.Name
	}
	return types.ID(id).String()
}

// Out returns the names of the members that do not want to join, by the log: plain etcd, another release, or one whose
// chain does not answer.
func (e *Engine) Out() []string {
	var names []string
	for _, m := range e.look().Members {
		if m.Record.Number == 0 {
			names = append(names, e.name(m.ID))
		}
	}
	return names
}
