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

// onHarness is a node without interfaces as a plane, without the features that need them.
type onHarness struct {
	*Harness
	dataplane.Plane // nil: the tests call no other methods
}

func (p onHarness) ConfigureAll(c map[uint16]chain.ShardConfig) error {
	return p.Harness.ConfigureAll(c)
}
func (p onHarness) Config(shard uint16) (chain.ShardConfig, error) { return p.Harness.Config(shard) }
func (p onHarness) Grant(shard uint16, d time.Duration) error {
	return p.GrantUntil(shard, dataplane.LeaseUntil(p.Clock(), d))
}
func (p onHarness) Clock() uint64                                { return dataplane.BootTime() }
func (p onHarness) Renew(until uint64) error                     { return p.Harness.Renew(until) }
func (p onHarness) Counters() (chain.Counters, error)            { return p.Harness.Counters() }
func (p onHarness) Loads() ([]dataplane.ShardLoad, error)        { return p.Harness.Loads() }
func (p onHarness) Usage() (dataplane.Usage, error)              { return p.Harness.Usage() }
func (p onHarness) Memory() (uint64, error)                      { return p.Harness.Memory() }
func (p onHarness) SetHeart(h chain.Heart) error                 { return p.Harness.SetHeart(h) }
func (p onHarness) Granted() (chain.Granted, error)              { return p.Harness.Granted() }
func (p onHarness) Drop(shards []uint16) error                   { return p.Harness.Drop(shards) }
func (p onHarness) Doubtful(shards []uint16) ([]wire.Key, error) { return p.Harness.Doubtful(shards) }
func (p onHarness) Collect() (map[uint16]dataplane.Tombstones, error) {
	return p.Harness.Collect()
}
func (p onHarness) Close() error { return p.Harness.Close() }
func (p onHarness) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	return p.Harness.Doubt(shards, gone)
}
func (p onHarness) Object(k wire.Key) (chain.Object, bool, error) {
	return p.Harness.Object(k)
}
func (p onHarness) Dirty(limit int) ([]dataplane.KeyedObject, error) { return p.Harness.Dirty(limit) }
func (p onHarness) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return p.Harness.Sessions(visit)
}
func (p onHarness) DropSession(k chain.SessionKey, seq uint64) error {
	return p.Harness.DropSession(k, seq)
}
func (p onHarness) Export(w dataplane.Wanted, object func(wire.Key, chain.Object) error,
	session func(chain.SessionKey, chain.Session) error) error {
	return p.Harness.Export(w, object, session)
}
func (p onHarness) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	return p.Harness.Import(objects, sessions)
}
func (p onHarness) Info() dataplane.Info {
	return dataplane.Info{Plane: "p4", Mode: "swx", Addr: p.self, Options: p.options}
}

// TestPlane: the control plane keeps what every plane promises.
func TestPlane(t *testing.T) {
	planetest.Options.CellBytes, planetest.Options.ClientSessions = CellBytes, 0 // of this process
	planetest.Run(t, func(t *testing.T) planetest.Node {
		m := machine(t, planetest.Options)
		client := netip.MustParseAddrPort("10.77.0.101:50000")
		return planetest.Node{Plane: onHarness{Harness: m}, Ask: func(q *wire.Message) (reply wire.Message, answered bool, err error) {
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
	}, "contended", // this plane does not report refused writes
		"collect", "collect beside writes", // there are no floors
		"room for sessions", "shares of sessions") // nor room for what was refused
}
