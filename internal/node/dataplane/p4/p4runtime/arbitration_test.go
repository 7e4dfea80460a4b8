package p4runtime

import (
	"fmt"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"
)

// TestTwoControllers: the higher election id is primary; who lost its place changes nothing, and everybody is told.
func TestTwoControllers(t *testing.T) {
	r := newRig(t)
	id := func(n uint64) *p4v1.Uint128 { return &p4v1.Uint128{High: n >> 32, Low: n} }
	standby := r.open("", nil)
	standby.wantNotice(codes.NotFound, nil)
	first := r.open("", id(5))
	first.wantNotice(codes.OK, id(5))
	standby.wantNotice(codes.AlreadyExists, id(5))
	if err := first.set(p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, tinyConfig(t)); err != nil {
		t.Fatal(err)
	}
	second := r.open("", id(1<<32))
	second.wantNotice(codes.OK, id(1<<32))
	first.wantNotice(codes.AlreadyExists, id(1<<32))
	standby.wantNotice(codes.AlreadyExists, id(1<<32))
	wantCode(t, first.write(update(insert, host(1, 1))), codes.PermissionDenied)
	wantCode(t, first.set(p4v1.SetForwardingPipelineConfigRequest_VERIFY, tinyConfig(t)), codes.PermissionDenied)
	if err := second.write(update(insert, host(1, 1))); err != nil {
		t.Fatal(err)
	}

	// The primary leaves: the others are told, and the lower election id does not take its place.
	if err := second.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	first.wantNotice(codes.NotFound, id(1<<32))
	standby.wantNotice(codes.NotFound, id(1<<32))
	wantCode(t, second.write(update(insert, host(2, 1))), codes.PermissionDenied)
	first.id = id(6)
	first.arbitrate(device)
	first.wantNotice(codes.NotFound, id(1<<32))
	first.id = id(1 << 33)
	first.arbitrate(device)
	first.wantNotice(codes.OK, id(1<<33))
	standby.wantNotice(codes.AlreadyExists, id(1<<33))
	first.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(1, 1))) // nothing was lost

	// The primary steps down.
	first.id = nil
	first.arbitrate(device)
	first.wantNotice(codes.NotFound, id(1<<33))
	standby.wantNotice(codes.NotFound, id(1<<33))

	// Another role has an election of its own, for the same tables.
	other := r.open("statistics", id(1))
	other.wantNotice(codes.OK, id(1))
	if err := other.write(update(remove, host(1, 1))); err != nil {
		t.Fatal(err)
	}
}

// TestPrimaryLostMeanwhile: another controller becomes primary while the program of the first one starts, which then is
// not set.
func TestPrimaryLostMeanwhile(t *testing.T) {
	r := newRig(t)
	first := r.open("", &p4v1.Uint128{Low: 1})
	first.wantNotice(codes.OK, first.id)
	second := &controller{}
	r.wrap = func(e Engine) Engine {
		second = r.open("", &p4v1.Uint128{Low: second.id.GetLow() + 2})
		second.wantNotice(codes.OK, second.id)
		return e
	}
	for _, action := range []p4v1.SetForwardingPipelineConfigRequest_Action{
		verify, verifyAndSave, verifyAndCommit, reconcile,
	} {
		wantCode(t, first.set(action, tinyConfig(t)), codes.PermissionDenied)
		first.id = second.id
	}
	r.wantConfig(nil)
	if n := r.running(); n != 0 {
		t.Errorf("%d engines run", n)
	}
}

// TestStreamsThatEnd: what ends a stream, with the code of the specification.
func TestStreamsThatEnd(t *testing.T) {
	r := newRig(t)
	id := &p4v1.Uint128{Low: 1}
	open := func(role string, id *p4v1.Uint128) *controller {
		c := r.open(role, id)
		if _, err := c.stream.Recv(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	update := func(m *p4v1.MasterArbitrationUpdate) *p4v1.StreamMessageRequest {
		return &p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{Arbitration: m}}
	}
	open("", id)
	for name, is := range map[string]struct {
		message *p4v1.StreamMessageRequest
		first   codes.Code // on a new stream
		later   codes.Code // on one that has an election id
	}{
		"another device": {update(&p4v1.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4v1.Uint128{Low: 2}}),
			codes.NotFound, codes.FailedPrecondition},
		"an election id in use": {update(&p4v1.MasterArbitrationUpdate{DeviceId: device, ElectionId: id}),
			codes.InvalidArgument, codes.InvalidArgument},
		"a role config": {update(&p4v1.MasterArbitrationUpdate{DeviceId: device, Role: &p4v1.Role{Config: new(anypb.Any)}}),
			codes.InvalidArgument, codes.InvalidArgument},
		"no update": {new(p4v1.StreamMessageRequest), codes.InvalidArgument, codes.InvalidArgument},
	} {
		stream, err := r.StreamChannel(r.ctx())
		if err != nil {
			t.Fatal(err)
		}
		c := &controller{rig: r, stream: stream}
		c.send(is.message)
		t.Log(name)
		c.wantEnd(is.first)
		c = open("", nil)
		c.send(is.message)
		c.wantEnd(is.later)
	}
	c := open("", nil)
	c.role = "another"
	c.arbitrate(device)
	c.wantEnd(codes.FailedPrecondition)
	for i := range maxRoles - 1 {
		open(fmt.Sprint("role ", i), id)
	}
	r.open("one more role", id).wantEnd(codes.ResourceExhausted)
	for range maxStreams {
		open("role 0", nil)
		if t.Failed() {
			break
		}
		if len(r.server.elections.byRole["role 0"].ids) == maxStreams {
			break
		}
	}
	r.open("role 0", nil).wantEnd(codes.ResourceExhausted)
}

// TestElections: whatever controllers do, a role has at most one primary, which has the highest election id that any
// primary had, and each stream knows.
func TestElections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newElections()
		told := make(map[int]notice)
		highest := make(map[string]electionID)
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			stream := rapid.IntRange(1, 6).Draw(t, fmt.Sprint("stream ", step))
			var notices []notice
			if rapid.IntRange(0, 4).Draw(t, "what") == 0 {
				notices = e.leave(stream)
				delete(told, stream)
			} else {
				var id *electionID
				if n := rapid.IntRange(0, 5).Draw(t, "id"); n > 0 {
					id = &electionID{uint64(n % 2), uint64(n)}
				}
				role := rapid.SampledFrom([]string{"", "a"}).Draw(t, "role")
				var err error
				if notices, err = e.update(stream, role, id); err != nil { // ends the stream
					notices = e.leave(stream)
					delete(told, stream)
				}
			}
			for _, n := range notices {
				told[n.stream] = n
			}
			checkElections(t, e, told, highest)
		}
	})
}

func checkElections(t *rapid.T, e *elections, told map[int]notice, highest map[string]electionID) {
	primaries := 0
	for role, of := range e.byRole {
		for stream, id := range of.ids {
			n, ok := told[stream]
			if !ok || e.streams[stream] != role || n.role != role {
				t.Fatalf("stream %d of role %q was told %v", stream, role, n)
			}
			is := e.isPrimary(stream)
			if is {
				primaries++
				if id == nil || *id != *of.highest || e.check(role, id) != nil {
					t.Fatalf("the primary %d has %v, the highest is %v", stream, id, of.highest)
				}
			} else if id != nil && e.check(role, id) == nil {
				t.Fatalf("stream %d is not primary, and may write", stream)
			}
			if is != (n.code == codes.OK) || !is && (n.code == codes.NotFound) != (of.primary == 0) {
				t.Fatalf("stream %d was told %v, the primary is %d", stream, n.code, of.primary)
			}
		}
		if of.highest != nil {
			if of.highest.less(highest[role]) {
				t.Fatalf("the highest election id fell from %v to %v", highest[role], *of.highest)
			}
			highest[role] = *of.highest
		}
	}
	if primaries != len(e.primaries()) || primaries > len(e.byRole) {
		t.Fatalf("%d primaries of %d roles", primaries, len(e.byRole))
	}
}
