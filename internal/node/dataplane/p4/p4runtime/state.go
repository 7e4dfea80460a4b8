package p4runtime

import (
	"encoding/binary"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// entry is a line of a table. It does not change once it is in the table.
type entry struct {
	match    []uint64
	action   *action
	args     []uint64
	metadata []byte
	cookie   uint64
}

// state is what the tables of a pipeline hold. Counters and registers are in the engine only.
type state struct {
	pipe     *pipeline
	entries  map[*table]map[string]*entry // by key
	defaults map[*table]*entry            // other than the program's
}

func newState(p *pipeline) *state {
	s := &state{pipe: p, entries: make(map[*table]map[string]*entry), defaults: make(map[*table]*entry)}
	for _, t := range p.tables {
		s.entries[t] = make(map[string]*entry)
	}
	return s
}

// change is an update that the state has made and the engine has yet to make.
type change struct {
	add  func(*p4.Request)
	undo func() // in the state
}

var none = change{func(*p4.Request) {}, func() {}}

func invalid(format string, values ...any) error {
	return status.Errorf(codes.InvalidArgument, format, values...)
}

// update makes one update, or explains why not.
func (s *state) update(u *p4v1.Update) (change, error) {
	switch u.GetType() {
	case p4v1.Update_INSERT, p4v1.Update_MODIFY, p4v1.Update_DELETE:
	default:
		return none, invalid("an update is an INSERT, a MODIFY or a DELETE")
	}
	switch e := u.GetEntity().GetEntity().(type) {
	case nil:
		return none, invalid("an update has an entity")
	case *p4v1.Entity_TableEntry:
		return s.tableEntry(u.GetType(), e.TableEntry)
	case *p4v1.Entity_CounterEntry:
		return s.counterEntry(u.GetType(), e.CounterEntry)
	case *p4v1.Entity_RegisterEntry:
		if s.pipe.noRegisters {
			return none, errNoRegisters
		}
		return s.registerEntry(u.GetType(), e.RegisterEntry)
	default:
		return none, unimplemented(u.GetEntity())
	}
}

var errNoRegisters = status.Error(codes.Unimplemented, "the switch has no register_entry")

func unimplemented(e *p4v1.Entity) error {
	m := e.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	return status.Errorf(codes.Unimplemented, "the switch has no %s, but tables, counters and registers", field.Name())
}

func (s *state) tableEntry(kind p4v1.Update_Type, e *p4v1.TableEntry) (change, error) {
	t := s.pipe.tableOf(e.GetTableId())
	if t == nil {
		return none, invalid("the P4Info has no table %d", e.GetTableId())
	}
	switch {
	case e.GetPriority() != 0:
		return none, invalid("table %s matches exactly: its entries have no priority", t.name)
	case e.GetIsConst():
		return none, invalid("is_const is set: controllers write no constant entries")
	}
	if kind != p4v1.Update_DELETE {
		if err := attributes(e); err != nil {
			return none, err
		}
	}
	if e.GetIsDefaultAction() {
		return s.defaultEntry(kind, t, e)
	}
	match, err := t.match(e.GetMatch())
	if err != nil {
		return none, err
	}
	key := keyOf(match)
	was := s.entries[t][key]
	if kind == p4v1.Update_DELETE {
		if was == nil {
			return none, status.Errorf(codes.NotFound, "table %s has no such entry", t.name)
		}
		return s.put(t, key, nil), nil
	}
	is := &entry{match: match, metadata: e.GetMetadata(), cookie: e.GetControllerMetadata()}
	if e.GetAction() != nil {
		if err := t.setAction(is, e.GetAction(), config.ActionRef_DEFAULT_ONLY); err != nil {
			return none, err
		}
	}
	switch {
	case kind == p4v1.Update_MODIFY && was == nil:
		return none, status.Errorf(codes.NotFound, "table %s has no such entry", t.name)
	case kind == p4v1.Update_MODIFY && is.action == nil:
		is.action, is.args = was.action, was.args
	case kind == p4v1.Update_MODIFY:
	case len(t.keys) == 0:
		return none, invalid("table %s has no key, and so a default action only: MODIFY it", t.name)
	case is.action == nil:
		return none, invalid("an entry that is inserted has an action")
	case was != nil:
		return none, status.Errorf(codes.AlreadyExists, "table %s has this entry: MODIFY it", t.name)
	case len(s.entries[t]) >= t.size:
		return none, status.Errorf(codes.ResourceExhausted, "table %s is full: it has %d entries", t.name, t.size)
	}
	return s.put(t, key, is), nil
}

// attributes refuses what entries of this switch have none of.
func attributes(e *p4v1.TableEntry) error {
	switch {
	case e.GetMeterConfig() != nil || e.GetCounterData() != nil || e.GetMeterCounterData() != nil:
		return invalid("the table has no direct counter or meter")
	case e.GetIdleTimeoutNs() != 0 || e.GetTimeSinceLastHit() != nil:
		return invalid("the table has no timeouts of entries")
	}
	return nil
}

// put replaces an entry; nil: it takes the entry out.
func (s *state) put(t *table, key string, is *entry) change {
	was := s.entries[t][key]
	set := func(e *entry) {
		if e == nil {
			delete(s.entries[t], key)
		} else {
			s.entries[t][key] = e
		}
	}
	set(is)
	return change{undo: func() { set(was) }, add: func(r *p4.Request) {
		if is == nil {
			r.Delete(was.line(t))
		} else {
			r.Insert(is.line(t))
		}
	}}
}

// line is the entry as the engine takes it.
func (e *entry) line(t *table) p4.Entry {
	line := p4.Entry{Table: t.name, Match: e.match, Action: e.action.name}
	for i, v := range e.args {
		line.Args = append(line.Args, p4.Arg{Name: e.action.params[i].name, Value: v})
	}
	return line
}

// defaultEntry changes the action of keys without an entry; without an action, it is the program's again.
func (s *state) defaultEntry(kind p4v1.Update_Type, t *table, e *p4v1.TableEntry) (change, error) {
	switch {
	case kind != p4v1.Update_MODIFY:
		return none, invalid("table %s always has one default entry: MODIFY it", t.name)
	case len(e.GetMatch()) > 0:
		return none, invalid("a default entry has no match")
	case t.constant:
		return none, status.Errorf(codes.PermissionDenied, "the default action of table %s is constant", t.name)
	}
	was, is := s.defaultOf(t), t.original
	if e.GetAction() != nil {
		is = &entry{metadata: e.GetMetadata(), cookie: e.GetControllerMetadata()}
		if err := t.setAction(is, e.GetAction(), config.ActionRef_TABLE_ONLY); err != nil {
			return none, err
		}
	}
	s.defaults[t] = is
	return change{
		undo: func() { s.defaults[t] = was },
		add:  func(r *p4.Request) { r.Default(is.line(t)) },
	}, nil
}

func (s *state) defaultOf(t *table) *entry {
	if e := s.defaults[t]; e != nil {
		return e
	}
	return t.original
}

// match reads a key; its fields come in any order.
func (t *table) match(fields []*p4v1.FieldMatch) ([]uint64, error) {
	values := make([]uint64, len(t.keys))
	seen := make([]bool, len(t.keys))
	for _, f := range fields {
		i := indexOf(t.keys, f.GetFieldId())
		switch {
		case i < 0:
			return nil, invalid("table %s has no key field %d", t.name, f.GetFieldId())
		case seen[i]:
			return nil, invalid("key field %s of table %s is there twice", t.keys[i].name, t.name)
		case f.GetExact() == nil:
			return nil, invalid("key field %s of table %s matches exactly", t.keys[i].name, t.name)
		}
		v, err := parse(f.GetExact().GetValue(), t.keys[i].bits)
		if err != nil {
			return nil, invalid("key field %s: %s", t.keys[i].name, status.Convert(err).Message())
		}
		values[i], seen[i] = v, true
	}
	for i, ok := range seen {
		if !ok {
			return nil, invalid("key field %s of table %s is missing", t.keys[i].name, t.name)
		}
	}
	return values, nil
}

func indexOf(fields []field, id uint32) int {
	for i, f := range fields {
		if f.id == id {
			return i
		}
	}
	return -1
}

func keyOf(match []uint64) string {
	var b []byte
	for _, v := range match {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return string(b)
}

// setAction reads an action, which must not have the scope.
func (t *table) setAction(e *entry, a *p4v1.TableAction, not config.ActionRef_Scope) error {
	given := a.GetAction()
	if given == nil {
		return invalid("table %s has actions of its own, without a profile", t.name)
	}
	is := t.actionOf(given.GetActionId())
	switch {
	case is == nil:
		return invalid("table %s has no action %d", t.name, given.GetActionId())
	case is.scope == not:
		return status.Errorf(codes.PermissionDenied, "action %s of table %s has the scope %v", is.name, t.name, is.scope)
	case len(given.GetParams()) != len(is.params):
		return invalid("action %s has %d parameters, not %d", is.name, len(is.params), len(given.GetParams()))
	}
	args, seen := make([]uint64, len(is.params)), make([]bool, len(is.params))
	for _, p := range given.GetParams() {
		i := indexOf(is.params, p.GetParamId())
		if i < 0 || seen[i] {
			return invalid("action %s has no parameter %d, or it is there twice", is.name, p.GetParamId())
		}
		v, err := parse(p.GetValue(), is.params[i].bits)
		if err != nil {
			return invalid("parameter %s of %s: %s", is.params[i].name, is.name, status.Convert(err).Message())
		}
		args[i], seen[i] = v, true
	}
	e.action, e.args = is, args
	return nil
}

func (s *state) counterEntry(kind p4v1.Update_Type, e *p4v1.CounterEntry) (change, error) {
	a := arrayOf(s.pipe.counters, e.GetCounterId())
	switch {
	case kind != p4v1.Update_MODIFY:
		return none, invalid("the program makes counters: MODIFY them")
	case a == nil:
		return none, invalid("the P4Info has no counter %d", e.GetCounterId())
	}
	first, n, err := a.span(e.GetIndex())
	switch {
	case err != nil || e.GetData() == nil:
		return none, err
	case e.GetData().GetByteCount() != 0:
		return none, invalid("counter %s counts packets only", a.name)
	case e.GetData().GetPacketCount() < 0:
		return none, invalid("a count is not negative")
	}
	return fill(a, first, n, uint64(e.GetData().GetPacketCount())), nil
}

func (s *state) registerEntry(kind p4v1.Update_Type, e *p4v1.RegisterEntry) (change, error) {
	a := arrayOf(s.pipe.registers, e.GetRegisterId())
	switch {
	case kind != p4v1.Update_MODIFY:
		return none, invalid("the program makes registers: MODIFY them")
	case a == nil:
		return none, invalid("the P4Info has no register %d", e.GetRegisterId())
	}
	first, n, err := a.span(e.GetIndex())
	if err != nil {
		return none, err
	}
	data, ok := e.GetData().GetData().(*p4v1.P4Data_Bitstring)
	if !ok {
		return none, invalid("register %s has values of %d bits: want a bitstring", a.name, a.bits)
	}
	v, err := parse(data.Bitstring, a.bits)
	if err != nil {
		return none, err
	}
	return fill(a, first, n, v), nil
}

// span is a place of the array, or all without an index.
func (a *array) span(i *p4v1.Index) (first, n int, err error) {
	switch {
	case i == nil:
		return 0, a.size, nil
	case i.GetIndex() < 0:
		return 0, 0, invalid("index %d of %s is negative", i.GetIndex(), a.name)
	case i.GetIndex() >= int64(a.size):
		return 0, 0, status.Errorf(codes.OutOfRange, "index %d of %s: it has %d places", i.GetIndex(), a.name, a.size)
	}
	return int(i.GetIndex()), 1, nil
}

func fill(a *array, first, n int, v uint64) change {
	return change{undo: none.undo, add: func(r *p4.Request) {
		values := make([]uint64, n)
		for i := range values {
			values[i] = v
		}
		r.Write(a.name, first, values...)
	}}
}
