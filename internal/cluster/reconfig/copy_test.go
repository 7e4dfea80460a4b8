package reconfig

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

func objectsOf(shard uint16, keys ...uint64) []dataplane.KeyedObject {
	var objects []dataplane.KeyedObject
	for _, n := range keys {
		object := chain.Object{Version: 1, Committed: 1, Value: []byte("four")}
		objects = append(objects, dataplane.KeyedObject{Key: keyIn(shard, n), Object: object})
	}
	return objects
}

func (b *bench) chunk(job uint64, objects []dataplane.KeyedObject) {
	b.t.Helper()
	if err := b.CopyChunk(job, objects, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) stored(want int) {
	b.t.Helper()
	if got := len(b.plane.Objects()); got != want {
		b.t.Errorf("%d objects are stored, want %d", got, want)
	}
}

// TestCopy: shards from one source are one job; progress is told, and that it is complete until the epoch changes.
func TestCopy(t *testing.T) {
	b := newBench(t, MemberOptions{})
	if !b.give(map[uint16]ShardOrder{0: learner(1, "s"), 1: learner(2, "s"), 2: hold(3, "o")}) {
		t.Error("an order waits for a copy")
	}
	want := []Copy{{Job: 1, Source: "s", Shards: map[uint16]uint32{0: 1, 1: 2}}, {Job: 2, Source: "o", Shards: map[uint16]uint32{2: 3}}}
	if got := b.Work().Copies; !reflect.DeepEqual(got, want) {
		t.Fatalf("copies %+v, want %+v", got, want)
	}
	b.chunk(1, append(objectsOf(0, 1, 2), objectsOf(1, 1)...))
	b.chunk(2, objectsOf(2, 1))
	b.CopyDone(1)
	progress := []Copied{{0, 1, 2, 88, true}, {1, 2, 1, 44, true}, {2, 3, 1, 44, false}}
	if got := b.Heartbeat().Copies; !reflect.DeepEqual(got, progress) {
		t.Errorf("progress %+v, want %+v", got, progress)
	}
	b.stored(4)
	b.give(map[uint16]ShardOrder{0: learner(1, "s"), 1: {Config: learner(2, "").Config}}) // told again: nothing to do
	if got := b.Work().Copies; !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("copies %+v, want %+v", got, want[1:])
	}
	promoted := learner(1, "")
	promoted.Config.Learner = false
	if b.give(only(0, promoted)); !b.Heartbeat().Copies[0].Complete {
		t.Error("a copy is not told to be complete any more, in the same epoch")
	}
	promoted.Config.Epoch = 2
	if b.give(only(0, promoted)); b.Heartbeat().Copies[0].Shard == 0 {
		t.Error("a copy is still told in another epoch")
	}
}

// TestHeldCopyIsKept: the node that a chain of one waited for joins it as a full member.
func TestHeldCopyIsKept(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(only(0, hold(2, "s")))
	b.chunk(1, objectsOf(0, 1))
	joins := full(3, chain.Frozen)
	joins.Fresh = false
	if b.give(only(0, joins)) {
		t.Error("a full member without a complete copy")
	}
	b.is(0, none(2))
	b.CopyDone(1)
	if !b.give(only(0, joins)) || len(b.Work().Wipe) > 0 {
		t.Errorf("not joined with its copy: %+v", b.Heartbeat())
	}
	b.is(0, full(3, chain.Frozen))
	b.stored(1)
}

// TestHeldCopyIsLostWithTheAgent: a node that has nothing of a shard is no full member of a chain that is not its first.
func TestHeldCopyIsLostWithTheAgent(t *testing.T) {
	b := newBench(t, MemberOptions{})
	joins := full(3, chain.Frozen)
	joins.Fresh = false
	if b.give(only(0, joins)) || !strings.Contains(b.Heartbeat().Refused, "no complete copy") {
		t.Errorf("%+v", b.Heartbeat())
	}
	b.is(0, none(0))
}

// TestCopyEnds: chunks of shards that are no longer wanted are not stored.
func TestCopyEnds(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(map[uint16]ShardOrder{0: learner(1, "s"), 1: learner(1, "s")})
	b.give(only(0, none(2)))
	b.chunk(1, append(objectsOf(0, 1), objectsOf(1, 1)...))
	b.stored(1)
	if got := b.Work().Copies; len(got) != 1 || !maps.Equal(got[0].Shards, map[uint16]uint32{1: 1}) {
		t.Errorf("copies %+v", got)
	}
	b.give(only(1, learner(2, "s"))) // the next epoch: the copy begins again, and keeps the present entries
	b.chunk(1, objectsOf(1, 2))
	b.stored(1)
	b.chunk(b.Work().Copies[0].Job, objectsOf(1, 2))
	b.stored(2)
}

// TestSourceFails: a failed copy becomes another job, also from another source. Late chunks of the first job are dropped.
func TestSourceFails(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(only(0, learner(1, "s")))
	b.chunk(1, objectsOf(0, 1))
	b.CopyFailed(1)
	b.CopyDone(1)
	if c := b.Heartbeat().Copies[0]; c.Complete || c.Objects != 0 {
		t.Errorf("%+v after the source failed", c)
	}
	if got := b.Work().Copies; len(got) != 1 || got[0].Job != 2 || got[0].Source != "s" {
		t.Errorf("copies %+v", got)
	}
	b.give(only(0, learner(1, "o")))
	if got := b.Work().Copies; len(got) != 1 || got[0].Job != 3 || got[0].Source != "o" {
		t.Errorf("copies %+v", got)
	}
}

// TestFull: a node without room says so and does not try again, until it is told to be something else.
func TestFull(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.plane.room = 1
	b.give(only(0, learner(1, "s")))
	if err := b.CopyChunk(1, objectsOf(0, 1, 2), nil); !errors.Is(err, dataplane.ErrFull) {
		t.Error(err)
	}
	b.CopyFailed(1)
	if heartbeat := b.Heartbeat(); len(b.Work().Copies) > 0 || heartbeat.Refused != "no room: the table is full" {
		t.Errorf("%+v, %+v", b.Work(), heartbeat)
	}
	if b.give(only(0, none(2))); b.Heartbeat().Refused != "" {
		t.Error("still refused: ", b.Heartbeat().Refused)
	}
}
