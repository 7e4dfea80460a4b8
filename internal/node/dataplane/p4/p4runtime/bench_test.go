package p4runtime

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	artefacts "github.com/netcraq/netcraq/p4"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
	"github.com/netcraq/netcraq/wire"
)

const (
	benchShards   = 64
	benchObjects  = 2048
	benchSessions = 512
	benchMembers  = 3
)

// BenchmarkNode compares a node on an engine's own socket with one that drives its switch by P4Runtime, with registers and
// without: what failover, repair and copies are made of.
func BenchmarkNode(b *testing.B) {
	enginetest.Need(b)
	for _, kind := range []struct {
		name string
		sw   func(*testing.B) p4.Switch
	}{
		{"socket", func(b *testing.B) p4.Switch {
			sw, err := p4.StartSWX(artefacts.Program, p4.EngineMegabytes)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = sw.Close() })
			return sw
		}},
		{"p4runtime", func(b *testing.B) p4.Switch { return newRig(b).dial() }},
		{"packets", func(b *testing.B) p4.Switch { return lackingRig(b, hasRegisters, hasRegisters).dial() }},
	} {
		b.Run(kind.name, func(b *testing.B) { benchNode(b, kind.sw(b)) })
	}
}

func benchNode(b *testing.B, sw p4.Switch) {
	n, err := p4.NewNode(sw, netip.MustParseAddrPort("10.77.0.2:4411"),
		chain.Options{Shards: benchShards, CellBytes: p4.CellBytes, MaxObjects: p4.MaxObjects, MaxSessions: p4.MaxSessions})
	if err != nil {
		b.Fatal(err)
	}
	objects, sessions := benchState()
	if err := n.Import(objects, sessions); err != nil {
		b.Fatal(err)
	}
	epoch := uint32(0)
	shards := make([]uint16, benchShards)
	configure := func(state chain.State) func() error {
		return func() error {
			epoch++
			configs := make(map[uint16]chain.ShardConfig)
			for i := range shards {
				shards[i] = uint16(i)
				configs[uint16(i)] = benchConfig(epoch, state)
			}
			return n.ConfigureAll(configs)
		}
	}
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"doubtful", func() error { _, err := n.Doubtful(shards); return err }},
		{"import", func() error { return n.Import(objects[:64], sessions[:16]) }},
		{"export", func() error {
			return n.Export(dataplane.Everything(shards), func(wire.Key, chain.Object) error { return nil },
				func(chain.SessionKey, chain.Session) error { return nil })
		}},
		{"drop", func() error { // of what is there the first time
			return errors.Join(configure(chain.None)(), n.Drop(shards), n.Import(objects[:256], nil))
		}},
		{"configure", configure(chain.Active)},
		{"renew", func() error { return n.Renew(uint64(epoch) << 40) }},
		{"counters", func() error { _, err := n.Counters(); return err }},
		{"loads", func() error { _, err := n.Loads(); return err }},
	} {
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				if err := part.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchConfig(epoch uint32, state chain.State) chain.ShardConfig {
	c := chain.ShardConfig{Epoch: epoch, State: state, Self: 1}
	for i := range benchMembers {
		c.Members = append(c.Members, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), wire.Port))
	}
	return c
}

func benchState() (objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) {
	for i := range uint64(benchObjects) {
		k := wire.Key{Hi: i << 32, Lo: i}
		o := chain.Object{Version: i + 1, Committed: i + 1, Value: binary.BigEndian.AppendUint64(nil, i)}
		objects = append(objects, dataplane.KeyedObject{Key: k, Object: o})
	}
	for i := range uint64(benchSessions) {
		k := chain.SessionKey{Session: i + 1, Shard: uint16(i % benchShards)}
		sessions = append(sessions, dataplane.KeyedSession{Key: k, Session: chain.Session{Seq: 1, Version: 1}})
	}
	return objects, sessions
}
