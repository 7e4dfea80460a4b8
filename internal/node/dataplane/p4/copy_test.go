package p4

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/wire"
)

// contents is what a node exports.
type contents struct {
	objects  map[wire.Key]chain.Object
	sessions map[chain.SessionKey]chain.Session
}

func contentsOf(t *testing.T, n *Node) contents {
	t.Helper()
	c := contents{make(map[wire.Key]chain.Object), make(map[chain.SessionKey]chain.Session)}
	err := n.Export(dataplane.Everything([]uint16{0, 1}),
		func(k wire.Key, o chain.Object) error { c.objects[k] = o; return nil },
		func(k chain.SessionKey, s chain.Session) error { c.sessions[k] = s; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestImportAtOnce: a node takes over many copies at once as it takes them over one by one, also several of one key.
func TestImportAtOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	at, one := machine(t, small), machine(t, small)
	for range 20 {
		var objects []dataplane.KeyedObject
		var sessions []dataplane.KeyedSession
		for range random.IntN(12) {
			version := random.Uint64N(20)
			objects = append(objects, dataplane.KeyedObject{Key: wire.Key{Lo: random.Uint64N(3)}, Object: chain.Object{
				Version: version, Committed: random.Uint64N(version + 1), Epoch: random.Uint32N(3),
				Value: make([]byte, random.IntN(65)),
			}})
			sessions = append(sessions, dataplane.KeyedSession{
				Key:     chain.SessionKey{Session: 1 + random.Uint64N(12), Shard: uint16(random.UintN(2))},
				Session: chain.Session{Seq: random.Uint64N(9), Version: version, Op: wire.OpAdd, Result: random.Uint64()},
			})
		}
		together := at.Import(objects, sessions)
		var single error
		for _, o := range objects {
			single = errors.Join(single, one.Import([]dataplane.KeyedObject{o}, nil))
		}
		for _, s := range sessions {
			if single != nil {
				break
			}
			single = one.Import(nil, []dataplane.KeyedSession{s})
		}
		if (together == nil) != (single == nil) {
			t.Fatalf("at once: %v, one by one: %v", together, single)
		}
		if a, b := contentsOf(t, at.Node), contentsOf(t, one.Node); !reflect.DeepEqual(a, b) {
			t.Fatalf("at once: %+v, one by one: %+v", a, b)
		}
		used, err := at.entriesUsed()
		if sessions := contentsOf(t, at.Node).sessions; err != nil || used != len(sessions) {
			t.Fatalf("%d entries are counted, %d are there, %v", used, len(sessions), err)
		}
	}
}

// failing is a switch that does not make changes.
type failing struct{ Switch }

var errFailing = errors.New("no change is made")

func (f failing) Do(r *Request) error {
	if len(r.Changes()) > 0 {
		return errFailing
	}
	return f.Switch.Do(r)
}

// TestPlacesThatAreNotMade: keys whose entries a switch refused have no place, and the next frame or import gives them
// one.
func TestPlacesThatAreNotMade(t *testing.T) {
	m := machine(t, small)
	objects := []dataplane.KeyedObject{
		{Key: wire.Key{Hi: 1}, Object: chain.Object{Version: 1, Committed: 1}},
		{Key: wire.Key{Hi: 2}, Object: chain.Object{Version: 2, Committed: 2}},
	}
	sw := m.Node.sw
	m.Node.sw = failing{sw}
	if err := m.Import(objects, nil); !errors.Is(err, errFailing) {
		t.Fatal(err)
	}
	wanted := make([]byte, PlatformBytes+frame.HeaderBytes+wire.BaseBytes) // of the key of zeros
	if _, _, err := m.wants(wanted); !errors.Is(err, errFailing) {
		t.Error(err)
	}
	if _, ok := m.place(wire.Key{}); ok {
		t.Error("a key has a place that its switch does not know")
	}
	m.Node.sw = sw
	if c := contentsOf(t, m.Node); len(c.objects) != 0 {
		t.Errorf("after an import that failed: %v", c.objects)
	}
	if err := m.Import(objects, nil); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, objects[0], objects[1])
	objects[2].Key, objects[3].Key = wire.Key{Hi: 3}, wire.Key{Hi: 4}
	if err := m.Import(objects, nil); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("a fourth object: %v", err)
	}
	if c := contentsOf(t, m.Node); len(c.objects) != 3 {
		t.Errorf("those with a place: %v", c.objects)
	}
}
