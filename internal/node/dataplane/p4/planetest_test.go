package p4

import (
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/planetest"
	"github.com/netcraq/netcraq/wire"
)

// onMachine is a node without interfaces as a plane, but for what needs them.
type onMachine struct {
	*Machine
	dataplane.Plane // nil: what is not below is not asked of it
}

func (p onMachine) ConfigureAll(c map[uint16]chain.ShardConfig) error {
	return p.Machine.ConfigureAll(c)
}
func (p onMachine) Config(shard uint16) (chain.ShardConfig, error) { return p.Machine.Config(shard) }
func (p onMachine) Grant(shard uint16, d time.Duration) error {
	return p.GrantUntil(shard, dataplane.LeaseUntil(p.Clock(), d))
}
func (p onMachine) Clock() uint64                             { return dataplane.BootTime() }
func (p onMachine) Renew(until uint64) error                  { return p.Machine.Renew(until) }
func (p onMachine) Counters() (chain.Counters, error)         { return p.Machine.Counters() }
func (p onMachine) Loads() ([]dataplane.ShardLoad, error)     { return p.Machine.Loads() }
func (p onMachine) Usage() (dataplane.Usage, error)           { return p.Machine.Usage() }
func (p onMachine) SetHeart(h chain.Heart) error              { return p.Machine.SetHeart(h) }
func (p onMachine) Granted() (chain.Granted, error)           { return p.Machine.Granted() }
func (p onMachine) Drop(shards []uint16) error                { return p.Machine.Drop(shards) }
func (p onMachine) Empty(shards []uint16) ([]wire.Key, error) { return p.Machine.Empty(shards) }
func (p onMachine) Close() error                              { return p.Machine.Close() }
func (p onMachine) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	return p.Machine.Doubt(shards, gone)
}
func (p onMachine) Object(k wire.Key) (chain.Object, bool, error) {
	return p.Machine.Object(k)
}
func (p onMachine) Dirty(limit int) ([]dataplane.KeyedObject, error) { return p.Machine.Dirty(limit) }
func (p onMachine) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return p.Machine.Sessions(visit)
}
func (p onMachine) DropSession(k chain.SessionKey, seq uint64) error {
	return p.Machine.DropSession(k, seq)
}
func (p onMachine) Export(w dataplane.Wanted, object func(wire.Key, chain.Object) error,
	session func(chain.SessionKey, chain.Session) error) error {
	return p.Machine.Export(w, object, session)
}
func (p onMachine) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	return p.Machine.Import(objects, sessions)
}
func (p onMachine) Info() dataplane.Info {
	return dataplane.Info{Plane: "p4", Mode: "swx", Addr: p.self, Options: p.options}
}

// TestPlane: the control plane keeps what every plane promises.
func TestPlane(t *testing.T) {
	planetest.Options.CellBytes = CellBytes // of this process
	planetest.Run(t, func(t *testing.T) planetest.Node {
		m := machine(t, planetest.Options)
		client := netip.MustParseAddrPort("10.77.0.101:50000")
		return planetest.Node{Plane: onMachine{Machine: m}, Ask: func(q *wire.Message) (reply wire.Message, answered bool, err error) {
			sent, _, err := m.Run(frame.Append(nil, &frame.Packet{From: client, To: m.self, Message: q.Append(nil)}))
			if err != nil || len(sent) == 0 {
				return reply, false, err
			}
			p, err := frame.ReadSent(sent[0])
			if err != nil {
				return reply, false, err
			}
			return reply, true, wire.DecodeReply(p.Message, &reply)
		}}
	}, "contended") // nobody tells of refused writes here
}
