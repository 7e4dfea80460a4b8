package p4runtime

import (
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
)

// TestReadErrors: entities that cannot be read have the code of the specification, the others are read.
func TestReadErrors(t *testing.T) {
	c := primary(t)
	if err := c.write(update(insert, host(1, 1))); err != nil {
		t.Fatal(err)
	}
	found, err := c.find(
		new(p4v1.Entity),
		entityOf(&p4v1.TableEntry{TableId: hosts}),
		entityOf(&p4v1.TableEntry{TableId: 9}),
		entityOf(&p4v1.TableEntry{Priority: 1}),
		entityOf(&p4v1.TableEntry{TableId: hosts, Match: host(1, 1).Match[:1]}),
		entityOf(&p4v1.TableEntry{TableId: hosts, Action: act(9)}),
		entityOf(&p4v1.TableEntry{TableId: hosts, IsDefaultAction: true, Match: host(1, 1).Match}),
		entityOf(&p4v1.TableEntry{TableId: hosts, CounterData: new(p4v1.CounterData)}),
		counter(9, nil, 0), counter(0, at(1), 0), counter(seen, at(-1), 0), counter(seen, at(16), 0),
		register(9, nil), register(marks, at(4)),
		&p4v1.Entity{Entity: &p4v1.Entity_DirectCounterEntry{}},
		&p4v1.Entity{Entity: &p4v1.Entity_ActionProfileGroup{}},
	)
	const bad = codes.InvalidArgument
	wantDetails(t, err, bad, codes.OK, bad, bad, bad, bad, bad, bad, bad, bad, bad, codes.OutOfRange, bad,
		codes.OutOfRange, codes.Unimplemented, codes.Unimplemented)
	if len(found) != 1 {
		t.Errorf("found %v", found)
	}
	stream, err := c.Read(c.ctx(), &p4v1.ReadRequest{DeviceId: device + 1})
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.NotFound)
}

// TestArrays: counters and registers are read and written by place and as a whole.
func TestArrays(t *testing.T) {
	c := primary(t)
	nothing := with(counter(seen, at(4), 0), func(e *p4v1.Entity) { e.GetCounterEntry().Data = nil })
	if err := c.write(&p4v1.Update{Type: modify, Entity: register(marks, nil, 0, 7)},
		&p4v1.Update{Type: modify, Entity: counter(seen, at(3), 1<<40)},
		&p4v1.Update{Type: modify, Entity: nothing},
	); err != nil {
		t.Fatal(err)
	}
	var all []*p4v1.Entity
	for i := range int64(4) {
		all = append(all, register(marks, at(i), 7))
	}
	c.wantEntities(register(marks, nil), all...)
	c.wantEntities(register(0, nil), all...)
	if err := c.write(&p4v1.Update{Type: modify, Entity: register(marks, at(2), 1, 0)}); err != nil {
		t.Fatal(err)
	}
	c.wantEntities(register(marks, at(2)), register(marks, at(2), 1, 0))
	c.wantEntities(counter(seen, at(3), 0), counter(seen, at(3), 1<<40))
	all = nil
	for i := range int64(16) {
		all = append(all, with(counter(seen, at(i), 0), func(e *p4v1.Entity) {
			if i == 3 {
				e.GetCounterEntry().Data.PacketCount = 1 << 40
			}
		}))
	}
	c.wantEntities(counter(0, nil, 0), all...)
	// The entities of a request share what they have in common.
	found, err := c.find(counter(0, nil, 0), counter(seen, nil, 0), counter(seen, at(3), 0))
	if err != nil || len(found) != 33 {
		t.Errorf("%d found, %v", len(found), err)
	}
}

// TestDefaultAction: it is the program's until it is changed, and again when it is changed to none.
func TestDefaultAction(t *testing.T) {
	c := primary(t)
	c.mark()
	entry := func(action uint32) *p4v1.TableEntry {
		return &p4v1.TableEntry{TableId: hosts, IsDefaultAction: true, Action: act(action)}
	}
	filter := entityOf(&p4v1.TableEntry{TableId: hosts, IsDefaultAction: true})
	c.wantEntities(filter, entityOf(entry(toCPU)))
	if n := c.packetsOf(1); n != 1 {
		t.Errorf("%d packets by the program's default action", n)
	}
	mine := with(entry(dropIt), func(e *p4v1.TableEntry) { e.Metadata = []byte("mine") })
	wantCode(t, c.write(update(modify, mine)), codes.OK)
	c.wantEntities(filter, entityOf(mine))
	if n := c.packetsOf(1); n != 0 {
		t.Errorf("%d packets by an action that drops", n)
	}
	wantCode(t, c.write(update(modify, &p4v1.TableEntry{TableId: hosts, IsDefaultAction: true})), codes.OK)
	c.wantEntities(filter, entityOf(entry(toCPU)))
	if n := c.packetsOf(1); n != 1 {
		t.Errorf("%d packets by the program's default action again", n)
	}
}
