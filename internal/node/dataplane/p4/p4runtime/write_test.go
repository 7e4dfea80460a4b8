package p4runtime

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// with changes a message and returns it.
func with[M any](m M, change func(M)) M {
	change(m)
	return m
}

func counter(id uint32, index *p4v1.Index, packets int64) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{
		CounterId: id, Index: index, Data: &p4v1.CounterData{PacketCount: packets},
	}}}
}

func register(id uint32, index *p4v1.Index, value ...byte) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{
		RegisterId: id, Index: index, Data: &p4v1.P4Data{Data: &p4v1.P4Data_Bitstring{Bitstring: value}},
	}}}
}

func at(i int64) *p4v1.Index { return &p4v1.Index{Index: i} }

// failing is an update that fails, and its code.
type failing struct {
	update *p4v1.Update
	code   codes.Code
}

type line = *p4v1.TableEntry

const (
	bad    = codes.InvalidArgument
	denied = codes.PermissionDenied
)

// updateErrors are updates of a table with the entry host(1, 1).
func updateErrors() map[string]failing {
	all := entryErrors()
	maps.Copy(all, defaultErrors())
	maps.Copy(all, otherErrors())
	return all
}

func byDefault(action *p4v1.TableAction) *p4v1.TableEntry {
	return &p4v1.TableEntry{TableId: hosts, IsDefaultAction: true, Action: action}
}

func other(kind p4v1.Update_Type, e *p4v1.Entity) *p4v1.Update {
	return &p4v1.Update{Type: kind, Entity: e}
}

func constant(e line) { e.IsConst = true }

func hit(e line) { e.TimeSinceLastHit = new(p4v1.TableEntry_IdleTimeout) }

func entryErrors() map[string]failing {
	changed := func(kind p4v1.Update_Type, change func(line)) *p4v1.Update {
		return update(kind, with(host(9, 1), change))
	}
	profile := &p4v1.TableAction{Type: &p4v1.TableAction_ActionProfileMemberId{}}
	ternary := &p4v1.FieldMatch{FieldId: 2, FieldMatchType: &p4v1.FieldMatch_Ternary_{}}
	tooLong := act(forward, []byte{1}, []byte{1, 0, 0})
	return map[string]failing{
		"no kind":               {update(p4v1.Update_UNSPECIFIED, host(9, 1)), bad},
		"no entity":             {&p4v1.Update{Type: insert}, bad},
		"an empty entity":       {other(insert, new(p4v1.Entity)), bad},
		"inserted twice":        {update(insert, host(1, 1)), codes.AlreadyExists},
		"modified, not there":   {update(modify, host(9, 1)), codes.NotFound},
		"deleted, not there":    {update(remove, host(9, 1)), codes.NotFound},
		"no such table":         {changed(insert, func(e line) { e.TableId = 5 }), bad},
		"a priority":            {changed(insert, func(e line) { e.Priority = 1 }), bad},
		"constant":              {changed(insert, constant), bad},
		"modified, constant":    {update(modify, with(host(1, 1), constant)), bad},
		"deleted, constant":     {update(remove, with(host(1, 1), constant)), bad},
		"a timeout":             {changed(insert, func(e line) { e.IdleTimeoutNs = 1 }), bad},
		"a time of a hit":       {changed(insert, hit), bad},
		"a direct counter":      {changed(insert, func(e line) { e.CounterData = new(p4v1.CounterData) }), bad},
		"a direct meter":        {changed(insert, func(e line) { e.MeterConfig = new(p4v1.MeterConfig) }), bad},
		"a meter's counter":     {changed(insert, func(e line) { e.MeterCounterData = new(p4v1.MeterCounterData) }), bad},
		"no action":             {changed(insert, func(e line) { e.Action = nil }), bad},
		"an empty action":       {changed(insert, func(e line) { e.Action = new(p4v1.TableAction) }), bad},
		"no such action":        {changed(insert, func(e line) { e.Action = act(9) }), bad},
		"an action of profiles": {changed(insert, func(e line) { e.Action = profile }), bad},
		"modified, no action 9": {update(modify, with(host(1, 1), func(e line) { e.Action = act(9) })), bad},
		"a default's action":    {changed(insert, func(e line) { e.Action = act(dropIt) }), denied},
		"modified to a default": {update(modify, with(host(1, 1), func(e line) { e.Action = act(dropIt) })), denied},
		"no such parameter":     {changed(insert, func(e line) { e.Action.GetAction().Params[1].ParamId = 9 }), bad},
		"a parameter too few":   {changed(insert, func(e line) { e.Action = act(forward, []byte{1}) }), bad},
		"a parameter too many":  {changed(insert, func(e line) { e.Action = act(toCPU, []byte{1}) }), bad},
		"a parameter twice":     {changed(insert, func(e line) { e.Action.GetAction().Params[1].ParamId = 1 }), bad},
		"a parameter too long":  {changed(insert, func(e line) { e.Action = tooLong }), bad},
		"an empty parameter":    {changed(insert, func(e line) { e.Action = act(forward, []byte{1}, nil) }), bad},
		"no such key field":     {changed(insert, func(e line) { e.Match[0].FieldId = 3 }), bad},
		"a key field twice":     {changed(insert, func(e line) { e.Match[0].FieldId = 2 }), bad},
		"a key field missing":   {changed(insert, func(e line) { e.Match = e.Match[:1] }), bad},
		"a key field too long":  {changed(insert, func(e line) { e.Match[1] = exact(2, 1, 0, 0) }), bad},
		"an empty key field":    {changed(insert, func(e line) { e.Match[1] = exact(2) }), bad},
		"a ternary match":       {changed(insert, func(e line) { e.Match[1] = ternary }), bad},
		"a field without match": {changed(insert, func(e line) { e.Match[1].FieldMatchType = nil }), bad},
	}
}

func defaultErrors() map[string]failing {
	hostKey := host(1, 1).Match
	itsConstant := with(byDefault(act(toCPU)), func(e line) { e.TableId = fixed })
	return map[string]failing{
		"a default inserted":     {update(insert, byDefault(act(toCPU))), bad},
		"a default deleted":      {update(remove, byDefault(nil)), bad},
		"a default with a match": {update(modify, with(byDefault(act(toCPU)), func(e line) { e.Match = hostKey })), bad},
		"a default's priority":   {update(modify, with(byDefault(act(toCPU)), func(e line) { e.Priority = 1 })), bad},
		"a default's timeout":    {update(modify, with(byDefault(act(toCPU)), func(e line) { e.IdleTimeoutNs = 1 })), bad},
		"a default's hit":        {update(modify, with(byDefault(act(toCPU)), hit)), bad},
		"an entry's action":      {update(modify, byDefault(act(forward, []byte{1}, []byte{1}))), denied},
		"a constant default":     {update(modify, itsConstant), denied},
	}
}

func otherErrors() map[string]failing {
	bytes := with(counter(seen, at(1), 1), func(e *p4v1.Entity) { e.GetCounterEntry().Data.ByteCount = 1 })
	nothing := with(register(marks, at(1), 1), func(e *p4v1.Entity) { e.GetRegisterEntry().Data = nil })
	all := map[string]failing{
		"a counter inserted":       {other(insert, counter(seen, at(1), 1)), bad},
		"a counter deleted":        {other(remove, counter(seen, at(1), 1)), bad},
		"no such counter":          {other(modify, counter(3, at(1), 1)), bad},
		"a negative index":         {other(modify, counter(seen, at(-1), 1)), bad},
		"an index too high":        {other(modify, counter(seen, at(16), 1)), codes.OutOfRange},
		"a negative count":         {other(modify, counter(seen, at(1), -1)), bad},
		"bytes that nobody counts": {other(modify, bytes), bad},
		"a register deleted":       {other(remove, register(marks, at(1), 1)), bad},
		"no such register":         {other(modify, register(3, at(1), 1)), bad},
		"a register beyond":        {other(modify, register(marks, at(4), 1)), codes.OutOfRange},
		"a register before":        {other(modify, register(marks, at(-4), 1)), bad},
		"a register too wide":      {other(modify, register(marks, at(1), 1, 0, 0)), bad},
		"a register without data":  {other(modify, nothing), bad},
	}
	for _, e := range []*p4v1.Entity{
		{Entity: &p4v1.Entity_ExternEntry{}}, {Entity: &p4v1.Entity_ActionProfileMember{}},
		{Entity: &p4v1.Entity_ActionProfileGroup{}}, {Entity: &p4v1.Entity_MeterEntry{}},
		{Entity: &p4v1.Entity_DirectMeterEntry{}}, {Entity: &p4v1.Entity_DirectCounterEntry{}},
		{Entity: &p4v1.Entity_PacketReplicationEngineEntry{}}, {Entity: &p4v1.Entity_ValueSetEntry{}},
		{Entity: &p4v1.Entity_DigestEntry{}},
	} {
		all[fmt.Sprintf("%T", e.GetEntity())] = failing{other(modify, e), codes.Unimplemented}
	}
	return all
}

// TestUpdatesThatFail: each has the code of the specification, and changes nothing.
func TestUpdatesThatFail(t *testing.T) {
	pipe, err := resolve(tinyInfo(t), read(t, "testdata/tiny.spec"))
	if err != nil {
		t.Fatal(err)
	}
	for name, is := range updateErrors() {
		s := newState(pipe)
		if _, err := s.update(update(insert, host(1, 1))); err != nil {
			t.Fatal(err)
		}
		_, err := s.update(is.update)
		t.Logf("%s: %v", name, err)
		wantCode(t, err, is.code)
		if n := len(s.entries[pipe.tables[0]]); n != 1 || len(s.defaults) != 0 {
			t.Errorf("%s: %d entries, %d defaults", name, n, len(s.defaults))
		}
	}
}

// TestTableWithoutKey: nothing is inserted into it.
func TestTableWithoutKey(t *testing.T) {
	pipe, err := resolve(tinyInfo(t), read(t, "testdata/tiny.spec"))
	if err != nil {
		t.Fatal(err)
	}
	pipe.tableOf(fixed).keys = nil
	_, err = newState(pipe).update(update(insert, &p4v1.TableEntry{TableId: fixed, Action: act(toCPU)}))
	wantCode(t, err, bad)
}

// TestWrite: entries come, change and go; what is read is what was written, with the shortest strings.
func TestWrite(t *testing.T) {
	c := primary(t)
	first := with(host(1, 3), func(e *p4v1.TableEntry) { e.Metadata, e.ControllerMetadata = []byte("mine"), 5 })
	long := host(2, 3)
	long.Match = []*p4v1.FieldMatch{exact(2, 0, 0, 8, 0), exact(1, 2, 0, 0, 0, 0, 2)}
	if err := c.write(update(insert, first), update(insert, long)); err != nil {
		t.Fatal(err)
	}
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(first), entityOf(host(2, 3)))
	c.wantEntities(entityOf(new(p4v1.TableEntry)), entityOf(first), entityOf(host(2, 3)))
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts, Match: first.Match}), entityOf(first))
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts, ControllerMetadata: 5}), entityOf(first))
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts, Metadata: []byte("mine")}), entityOf(first))
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts, Action: act(toCPU)}))
	noAction := &p4v1.TableEntry{TableId: hosts, Match: first.Match}
	if err := c.write(update(modify, noAction), update(modify, host(2, 4))); err != nil {
		t.Fatal(err)
	}
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(1, 3)), entityOf(host(2, 4)))
	noAction.IdleTimeoutNs = 1 // which a DELETE does not look at
	if err := c.write(update(remove, noAction)); err != nil {
		t.Fatal(err)
	}
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(2, 4)))
}

// TestBatches: of updates that cannot all be made, the others are made, unless all or none are asked for.
func TestBatches(t *testing.T) {
	c := primary(t)
	wantDetails(t, c.write(update(insert, host(1, 1)), update(insert, host(1, 2)), update(remove, host(5, 1)),
		update(insert, host(2, 2))), codes.OK, codes.AlreadyExists, codes.NotFound, codes.OK)
	all := entityOf(&p4v1.TableEntry{TableId: hosts})
	c.wantEntities(all, entityOf(host(1, 1)), entityOf(host(2, 2)))
	wantDetails(t, c.write(update(insert, host(3, 1)), update(insert, host(4, 1)), update(insert, host(5, 1))),
		codes.OK, codes.OK, codes.ResourceExhausted)
	for _, mode := range []p4v1.WriteRequest_Atomicity{
		p4v1.WriteRequest_ROLLBACK_ON_ERROR, p4v1.WriteRequest_DATAPLANE_ATOMIC,
	} {
		err := c.atomically(mode, update(remove, host(4, 1)), update(modify, host(6, 1)),
			&p4v1.Update{Type: modify, Entity: register(marks, at(0), 9)})
		wantDetails(t, err, codes.Aborted, codes.NotFound, codes.Aborted)
		c.wantEntities(all, entityOf(host(1, 1)), entityOf(host(2, 2)), entityOf(host(3, 1)), entityOf(host(4, 1)))
		c.wantEntities(register(marks, at(0)), register(marks, at(0), 0))
	}
	if err := c.atomically(p4v1.WriteRequest_DATAPLANE_ATOMIC, update(remove, host(4, 1)),
		update(insert, host(5, 1)), &p4v1.Update{Type: modify, Entity: register(marks, at(0), 9)}); err != nil {
		t.Fatal(err)
	}
	c.wantEntities(all, entityOf(host(1, 1)), entityOf(host(2, 2)), entityOf(host(3, 1)), entityOf(host(5, 1)))
	c.wantEntities(register(marks, at(0)), register(marks, at(0), 9))
	wantCode(t, c.atomically(9), codes.Unimplemented)
}

func (c *controller) atomically(mode p4v1.WriteRequest_Atomicity, updates ...*p4v1.Update) error {
	_, err := c.Write(c.ctx(), &p4v1.WriteRequest{
		DeviceId: device, ElectionId: c.id, Atomicity: mode, Updates: updates,
	})
	return err
}

// refusing is an engine that refuses some requests, as one does whose tables of hashes are full, or which has ended.
type refusing struct {
	Engine
	refuse int
	gone   bool
}

var errRefused = errors.New("a table is full")

func (e *refusing) Do(r *p4.Request) error {
	switch {
	case e.gone:
		return p4.ErrGone
	case e.refuse > 0:
		e.refuse--
		return errRefused
	}
	return e.Engine.Do(r)
}

func (e *refusing) Put(port int, frame []byte) error {
	if e.gone {
		return p4.ErrGone
	}
	return e.Engine.Put(port, frame)
}

// TestEngineThatRefuses: updates are made one by one then, to tell which of them fail.
func TestEngineThatRefuses(t *testing.T) {
	r := newRig(t)
	e := new(refusing)
	r.wrap = func(real Engine) Engine { e.Engine = real; return e }
	c := r.open("", &p4v1.Uint128{Low: 1})
	c.wantNotice(codes.OK, &p4v1.Uint128{Low: 1})
	if err := c.set(p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, tinyConfig(t)); err != nil {
		t.Fatal(err)
	}
	e.refuse = 2
	wantDetails(t, c.write(update(insert, host(1, 1)), update(insert, host(2, 2)), update(remove, host(3, 3))),
		codes.ResourceExhausted, codes.OK, codes.NotFound)
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(2, 2)))
	e.refuse = 1
	err := c.atomically(p4v1.WriteRequest_DATAPLANE_ATOMIC, update(insert, host(1, 1)), update(remove, host(2, 2)))
	wantDetails(t, err, codes.ResourceExhausted, codes.ResourceExhausted)
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(2, 2)))

	e.refuse = 1
	_, err = c.find(entityOf(&p4v1.TableEntry{TableId: hosts}), counter(seen, at(1), 0))
	wantDetails(t, err, codes.Internal, codes.Internal)
	e.gone = true
	for _, mode := range []p4v1.WriteRequest_Atomicity{
		p4v1.WriteRequest_CONTINUE_ON_ERROR, p4v1.WriteRequest_ROLLBACK_ON_ERROR, p4v1.WriteRequest_DATAPLANE_ATOMIC,
	} {
		err := c.atomically(mode, update(insert, host(1, 1)))
		wantCode(t, err, codes.Unavailable)
		if n := len(status.Convert(err).Details()); n != 0 {
			t.Errorf("%v: %d details of an error of the whole request", mode, n)
		}
	}
	_, err = c.find(counter(seen, at(1), 0))
	wantDetails(t, err, codes.Unavailable)
	c.send(packet(frameTo(1), byPort(1)))
	c.wantError(codes.Unavailable, func(e *p4v1.StreamError) bool { return e.GetPacketOut() != nil })
	e.gone = false
	c.wantEntities(entityOf(&p4v1.TableEntry{TableId: hosts}), entityOf(host(2, 2)))
}

// TestWhoMayWrite: the checks before a batch come in the specification's order.
func TestWhoMayWrite(t *testing.T) {
	r := newRig(t)
	id := &p4v1.Uint128{High: 1}
	c := r.open("", id)
	c.wantNotice(codes.OK, id)
	for _, is := range []struct {
		request *p4v1.WriteRequest
		code    codes.Code
	}{
		{&p4v1.WriteRequest{DeviceId: device + 1, ElectionId: id}, codes.NotFound},
		{&p4v1.WriteRequest{DeviceId: device, Role: "nobody", ElectionId: id}, codes.NotFound},
		{&p4v1.WriteRequest{DeviceId: device, RoleId: 3, ElectionId: id}, codes.NotFound},
		{&p4v1.WriteRequest{DeviceId: device}, codes.PermissionDenied},
		{&p4v1.WriteRequest{DeviceId: device, ElectionId: &p4v1.Uint128{Low: 1}}, codes.PermissionDenied},
		{&p4v1.WriteRequest{DeviceId: device, ElectionId: id}, codes.FailedPrecondition},
	} {
		_, err := c.Write(c.ctx(), is.request)
		wantCode(t, err, is.code)
	}
}

// wantEntities reads what one entity selects.
func (r *rig) wantEntities(filter *p4v1.Entity, want ...*p4v1.Entity) {
	r.Helper()
	have, err := r.find(filter)
	if err != nil {
		r.Fatal(err)
	}
	if len(have) != len(want) {
		r.Fatalf("%v selects %v, want %v", filter, have, want)
	}
	for i := range want {
		if !proto.Equal(have[i], want[i]) {
			r.Errorf("%v selects %v, want %v", filter, have[i], want[i])
		}
	}
}
