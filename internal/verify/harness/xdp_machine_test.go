package harness

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

func at(last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, last}), wire.Port)
}

// TestMachineSmall runs reference and bytecode on one stream of writes and reads in each role.
func TestMachineSmall(t *testing.T) {
	roottest.Need(t)
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ref := conformance.NewReference()
	chains := map[string][]netip.AddrPort{
		"alone":  {at(2)},
		"head":   {at(2), at(3), at(4)},
		"middle": {at(1), at(2), at(4)},
		"tail":   {at(1), at(3), at(2)},
	}
	for name, members := range chains {
		t.Run(name, func(t *testing.T) {
			o := chain.Options{Shards: 4, CellBytes: 1352, MaxObjects: 6, MaxSessions: 5}
			state := conformance.State{Shards: map[uint16]conformance.Shard{}}
			for s := range uint16(4) {
				c := chain.ShardConfig{Epoch: 3, State: chain.Active, Members: members}
				for i, member := range members {
					if member == conformance.Me {
						c.Self = i
					}
				}
				state.Shards[s] = conformance.Shard{Config: c, Lease: dataplane.Forever}
			}
			for _, target := range []conformance.Target{ref, m} {
				if err := target.Reset(o); err != nil {
					t.Fatal(err)
				}
				if err := target.Load(state); err != nil {
					t.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range 3000 {
				f := randomFrame(rng, members)
				wantVerdict, want, err := ref.Step(bytes.Clone(f))
				if err != nil {
					t.Fatal(err)
				}
				gotVerdict, got, err := m.Step(bytes.Clone(f))
				if err != nil {
					t.Fatal(err)
				}
				sortFrames(want)
				sortFrames(got)
				if wantVerdict != gotVerdict || !cmp.Equal(strip(want), strip(got)) {
					t.Fatalf("step %d: frame %x\nchain: %v %x\nxdp:   %v %x", i, f, wantVerdict, strip(want), gotVerdict, strip(got))
				}
			}
			want, _ := ref.State()
			got, err := m.State()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("state differs (-chain +xdp):\n%s", d)
			}
		})
	}
}

func strip(frames [][]byte) [][]byte {
	out := [][]byte{}
	for _, f := range frames {
		out = append(out, f[frame.EthernetBytes:])
	}
	return out
}

func sortFrames(f [][]byte) {
	sort.Slice(f, func(i, j int) bool { return bytes.Compare(f[i][14:], f[j][14:]) < 0 })
}

func randomFrame(rng *rand.Rand, members []netip.AddrPort) []byte {
	ops := []wire.Op{
		wire.OpRead, wire.OpPut, wire.OpDelete, wire.OpCAS, wire.OpAdd, wire.OpForward, wire.OpUpdate, wire.OpAck,
		wire.OpProbe, wire.OpRelay,
	}
	m := wire.Message{Op: ops[rng.IntN(len(ops))], Epoch: 3, Request: rng.Uint64()}
	m.Key = wire.Key{Hi: 7, Lo: uint64(rng.IntN(8))}
	m.Shard = m.Key.Shard(4)
	from := netip.AddrPortFrom(netip.MustParseAddr("10.77.0.9"), 5000)
	if m.Op.IsChain() {
		from = members[rng.IntN(len(members))]
		m.Version = uint64(rng.IntN(5))
	}
	clientOp := m.Op
	if m.Op == wire.OpForward || m.Op == wire.OpUpdate || m.Op == wire.OpRelay {
		m.Client = netip.AddrPortFrom(netip.MustParseAddr("10.77.0.9"), 5000)
		clientOp = ops[rng.IntN(5)]
		m.ClientOp = clientOp
		if m.Op == wire.OpForward {
			m.Version = 0
		}
	}
	if clientOp.IsWrite() {
		m.Session = uint64(1 + rng.IntN(6))
		m.Seq = uint64(1 + rng.IntN(12))
		switch clientOp {
		case wire.OpPut, wire.OpCAS:
			if m.Op != wire.OpRelay {
				m.Value = make([]byte, []int{0, 5, 8, 16, 17, 700, 1352}[rng.IntN(7)])
				for i := range m.Value {
					m.Value[i] = byte(rng.Uint32())
				}
			}
		case wire.OpAdd:
			if m.Op == wire.OpUpdate || m.Op == wire.OpRelay {
				m.Value = []byte{0, 0, 0, 0, 0, 0, 1, byte(rng.Uint32())}
			}
		}
		if clientOp == wire.OpCAS || clientOp == wire.OpAdd {
			m.Operand = uint64(rng.IntN(4))
		}
	}
	if m.Op == wire.OpRead {
		m.Flags = []wire.Flag{0, 0, 0, wire.FlagAny, wire.FlagBounded}[rng.IntN(5)]
	}
	p := frame.Packet{
		SourceMAC: conformance.MACOf(from.Addr()), DestMAC: conformance.MACOf(conformance.Me.Addr()),
		From: from, To: conformance.Me, Message: m.Append(nil),
	}
	f := frame.Append(nil, &p)
	if rng.IntN(10) == 0 {
		f[14+rng.IntN(len(f)-14)] ^= byte(1 << rng.IntN(8))
	}
	return f
}
