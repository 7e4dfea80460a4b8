package planetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Options are the options of the planes under test.
var Options = chain.Options{Shards: 16, CellBytes: 128, MaxObjects: 256, MaxSessions: 256, ClientSessions: 100}

// Node is a new plane under test.
type Node struct {
	Plane dataplane.Plane
	// Ask sends a client's message to the plane and returns the reply; false if there is none. It
	// is safe for concurrent use.
	Ask func(*wire.Message) (wire.Message, bool, error)
}

// Run runs all tests except those in without, which need features that the plane lacks. Each test opens its own nodes, at
// most two at a time, and closes them at its end.
func Run(t *testing.T, open func(t *testing.T) Node, without ...string) {
	for _, one := range []struct {
		name string
		run  func(*testing.T, func(*testing.T) Node)
	}{
		{"configure all or none", testConfigure},
		{"frozen is frozen", testFreeze},
		{"leases", testLeases},
		{"import what is newer", testNewer},
		{"import beside writes", testImportBeside},
		{"copy under load", testCopy},
		{"drop", testDrop},
		{"come back", testComeBack},
		{"full", testFull},
		{"room for sessions", testRoom},
		{"shares of sessions", testShare},
		{"loads", testLoads},
		{"contended", testContended},
		{"collect", testCollect},
		{"collect beside writes", testCollectBeside},
	} {
		if !slices.Contains(without, one.name) {
			t.Run(one.name, func(t *testing.T) { one.run(t, open) })
		}
	}
}

// alone makes a node the only member of all chains.
func alone(t *testing.T, n Node) {
	t.Helper()
	configure(t, n, chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{n.Plane.Info().Addr}})
	check(t, n.Plane.Renew(n.Plane.Clock()+uint64(time.Hour)))
}

// configure gives all shards of a node the same configuration.
func configure(t *testing.T, n Node, c chain.ShardConfig) {
	t.Helper()
	configs := make(map[uint16]chain.ShardConfig)
	for _, shard := range allShards() {
		configs[shard] = c
	}
	check(t, n.Plane.ConfigureAll(configs))
}

func allShards() []uint16 {
	shards := make([]uint16, Options.Shards)
	for i := range shards {
		shards[i] = uint16(i)
	}
	return shards
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keyOf(name string) wire.Key {
	k, err := wire.HashKey([]byte(name))
	if err != nil {
		panic(err)
	}
	return k
}

func shardOf(k wire.Key) uint16 { return k.Shard(Options.Shards) }

// status requests a key and returns the status of the answer.
func status(t *testing.T, n Node, k wire.Key) wire.Status {
	t.Helper()
	reply, answered, err := n.Ask(&wire.Message{Op: wire.OpRead, Shard: shardOf(k), Key: k, Request: 1})
	check(t, err)
	if !answered {
		t.Fatalf("no answer for %v", k)
	}
	return reply.Status()
}

// writer is a client with one session, in all shards.
type writer struct {
	node    Node
	session uint64
	seq     uint64
	stop    chan struct{} // closed: give up; nil: never give up
}

func (w *writer) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// put repeats a write until it succeeds. The value shows whether it is torn.
func (w *writer) put(k wire.Key) error {
	w.seq++
	m := wire.Message{
		Op: wire.OpPut, Shard: shardOf(k), Epoch: 1, Key: k, Request: w.seq, Session: w.session, Seq: w.seq,
		Value: wholeValue(w.session<<32 | w.seq),
	}
	for {
		reply, answered, err := w.node.Ask(&m)
		switch {
		case err != nil:
			return err
		case !answered || reply.Status() == wire.StatusBusy:
			if w.stopped() {
				return nil
			}
			continue
		case reply.Status() != wire.StatusOk:
			return fmt.Errorf("put: %v", reply.Status())
		}
		return nil
	}
}

// wholeValue repeats one word. The length also depends on the word.
func wholeValue(word uint64) []byte {
	var value []byte
	for range 1 + word%uint64(Options.CellBytes/8) {
		value = binary.BigEndian.AppendUint64(value, word)
	}
	return value
}

func isWhole(value []byte) bool {
	return len(value) >= 8 && string(value) == string(wholeValue(binary.BigEndian.Uint64(value)))
}

// contents is the stored state of a node.
type contents struct {
	objects  map[wire.Key]chain.Object
	sessions map[chain.SessionKey]chain.Session
}

// export copies all contents and checks that no value is torn.
func export(p dataplane.Plane, shards []uint16) (contents, error) {
	c := contents{make(map[wire.Key]chain.Object), make(map[chain.SessionKey]chain.Session)}
	err := p.Export(dataplane.Everything(shards), func(k wire.Key, o chain.Object) error {
		if o.Version > 0 && !o.Tombstone && !isWhole(o.Value) {
			return fmt.Errorf("%v is torn at version %d: %x", k, o.Version, o.Value)
		}
		c.objects[k] = o
		return nil
	}, func(k chain.SessionKey, s chain.Session) error {
		c.sessions[k] = s
		return nil
	})
	return c, err
}

func (c contents) importInto(p dataplane.Plane) error {
	var objects []dataplane.KeyedObject
	for k, o := range c.objects {
		objects = append(objects, dataplane.KeyedObject{Key: k, Object: o})
	}
	var sessions []dataplane.KeyedSession
	for k, s := range c.sessions {
		sessions = append(sessions, dataplane.KeyedSession{Key: k, Session: s})
	}
	return p.Import(objects, sessions)
}

// differs returns an error that lists the differences of two nodes' contents, as far as they are
// copied.
func (c contents) differs(other contents) error {
	if len(c.objects) != len(other.objects) || len(c.sessions) != len(other.sessions) {
		return fmt.Errorf("%d objects and %d sessions became %d and %d", len(c.objects), len(c.sessions),
			len(other.objects), len(other.sessions))
	}
	var errs []error
	for k, a := range c.objects {
		b := other.objects[k]
		if a.Version != b.Version || a.Committed != b.Committed || a.Tombstone != b.Tombstone ||
			string(a.Value) != string(b.Value) {
			errs = append(errs, fmt.Errorf("%v: %+v became %+v", k, a, b))
		}
	}
	for k, a := range c.sessions {
		if b := other.sessions[k]; a != b {
			errs = append(errs, fmt.Errorf("%v: %+v became %+v", k, a, b))
		}
	}
	return errors.Join(errs...)
}
