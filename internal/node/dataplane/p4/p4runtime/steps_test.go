package p4runtime

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/wire"
)

var (
	stepsSelf    = netip.MustParseAddrPort("10.77.0.2:4411")
	stepsOptions = chain.Options{Shards: 2, CellBytes: 64, MaxObjects: 20, MaxSessions: 64}
	stepsHosts   = []netip.Addr{
		netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("10.77.0.4"), netip.MustParseAddr("10.77.0.101"),
	}
)

// stepsNode is a node on a switch, with room for few objects.
func stepsNode(r *rig) (*p4.Harness, *Remote) {
	r.Helper()
	sw := r.dial()
	h, err := p4.HarnessOn(sw, stepsSelf, stepsOptions, stepsHosts, func(netip.Addr) [6]byte { return [6]byte{} })
	if err != nil {
		r.Fatal(err)
	}
	return h, sw
}

// state is what a node has, and counts.
type nodeState struct {
	objects  map[wire.Key]chain.Object
	sessions map[chain.SessionKey]chain.Session
	dirty    []dataplane.KeyedObject
	doubtful []wire.Key
	usage    dataplane.Usage
}

func stateOf(t *testing.T, h *p4.Harness) nodeState {
	t.Helper()
	s := nodeState{objects: make(map[wire.Key]chain.Object), sessions: make(map[chain.SessionKey]chain.Session)}
	both := []uint16{0, 1}
	err := h.Export(dataplane.Everything(both),
		func(k wire.Key, o chain.Object) error { s.objects[k] = o; return nil },
		func(k chain.SessionKey, is chain.Session) error { s.sessions[k] = is; return nil })
	var errs [4]error
	s.dirty, errs[0] = h.Dirty(1000)
	s.doubtful, errs[1] = h.Doubtful(both)
	s.usage, errs[2] = h.Usage()
	for k, want := range s.objects {
		if is, ok, err := h.Object(k); err != nil || !ok || !reflect.DeepEqual(is, want) {
			t.Errorf("object %v is %+v, exported as %+v: %v, %v", k, is, want, ok, err)
		}
	}
	if err := errors.Join(err, errs[0], errs[1], errs[2]); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(s.dirty, func(a, b dataplane.KeyedObject) int { return int(a.Key.Lo) - int(b.Key.Lo) })
	slices.SortFunc(s.doubtful, func(a, b wire.Key) int { return int(a.Lo) - int(b.Lo) })
	return s
}

func randomCopies(random *rand.Rand) (objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) {
	for range random.IntN(30) {
		version := random.Uint64N(20)
		o := chain.Object{Version: version, Committed: random.Uint64N(version + 1), Epoch: random.Uint32N(3)}
		if o.Tombstone = random.IntN(4) == 0 && version > 0; !o.Tombstone && version > 0 {
			o.Value = make([]byte, random.IntN(65))
			for i := range o.Value {
				o.Value[i] = byte(random.Uint32())
			}
		}
		objects = append(objects, dataplane.KeyedObject{Key: wire.Key{Hi: 9, Lo: random.Uint64N(24)}, Object: o})
		sessions = append(sessions, dataplane.KeyedSession{
			Key: chain.SessionKey{Session: 1 + random.Uint64N(24), Shard: uint16(random.UintN(2))},
			Session: chain.Session{Seq: 1 + random.Uint64N(9), Version: version, Result: random.Uint64(), KeyLo: random.Uint64(),
				Op: wire.OpAdd, Status: wire.Status(random.UintN(8))},
		})
	}
	return objects, sessions
}

// TestSteps: a node on a switch without registers does by packets what it does by registers elsewhere.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	with, _ := stepsNode(newRig(t))
	without, sw := stepsNode(lackingRig(t, hasRegisters, hasRegisters))
	if !sw.Steps() {
		t.Fatal("the switch has registers")
	}
	each := func(do func(h *p4.Harness) error) {
		t.Helper()
		if a, b := do(with), do(without); (a == nil) != (b == nil) {
			t.Fatalf("with registers: %v, without: %v", a, b)
		}
	}
	for range 30 {
		objects, sessions := randomCopies(random)
		var gone [2]map[chain.SessionKey]chain.Session
		switch random.IntN(6) {
		case 0:
			each(func(h *p4.Harness) error { return h.Drop([]uint16{1}) })
		case 1:
			i := 0
			each(func(h *p4.Harness) error {
				gone[i] = make(map[chain.SessionKey]chain.Session)
				_, err := h.Doubt([]uint16{0}, func(k chain.SessionKey, s chain.Session) { gone[i][k] = s })
				i++
				return err
			})
			if !reflect.DeepEqual(gone[0], gone[1]) {
				t.Fatalf("sessions that are gone: %v and %v", gone[0], gone[1])
			}
		case 2:
			for _, s := range sessions {
				each(func(h *p4.Harness) error { return h.DropSession(s.Key, s.Session.Seq) })
			}
		default:
			each(func(h *p4.Harness) error { return h.Import(objects, sessions) })
		}
		if a, b := stateOf(t, with), stateOf(t, without); !reflect.DeepEqual(a, b) {
			t.Fatalf("with registers:\n%+v\nwithout:\n%+v", a, b)
		}
	}
}

// TestStepsAreRepeated: a node whose packets to the program or whose answers are lost asks again.
func TestStepsAreRepeated(t *testing.T) {
	var packets atomic.Int64
	h, _ := stepsNode(losingRig(t, hasRegisters, hasRegisters, func() bool { return packets.Add(1)%4 == 1 }))
	objects, sessions := randomCopies(rand.New(rand.NewPCG(seedtest.Seed(t), 0)))
	objects, sessions = objects[:min(len(objects), 20)], sessions[:min(len(sessions), 5)]
	if err := h.Import(objects, sessions); err != nil {
		t.Fatal(err)
	}
	is := stateOf(t, h)
	for _, o := range objects {
		if is.objects[o.Key].Version < o.Object.Version {
			t.Errorf("object %v is %+v, after an import of %+v", o.Key, is.objects[o.Key], o.Object)
		}
	}
	for _, s := range sessions {
		if is.sessions[s.Key].Seq < s.Session.Seq {
			t.Errorf("session %v is %+v, after an import of %+v", s.Key, is.sessions[s.Key], s.Session)
		}
	}
}

// TestProgramsWithoutSteps: a node does not start on a switch without registers whose program answers nothing, and says
// so.
func TestProgramsWithoutSteps(t *testing.T) {
	sw := losingRig(t, hasRegisters, hasRegisters, func() bool { return true }).dial()
	sw.patience = time.Second
	_, err := p4.NewNode(sw, stepsSelf, stepsOptions)
	if want := "use a switch that implements one of both"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
