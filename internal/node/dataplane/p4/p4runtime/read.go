package p4runtime

import (
	"errors"
	"maps"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

const (
	// readBatch is how many values are read with no frame in between. More are read in parts, so that frames are never
	// held up for long.
	readBatch = 8192
	// answerBytes is about the length of an answer; clients take 4 MiB by default.
	answerBytes = 256 << 10
)

// Read answers with what the entities of the request select, as it stands between two writes.
func (s *Server) Read(r *p4v1.ReadRequest, stream p4v1.P4Runtime_ReadServer) error {
	found, errs, err := s.find(r)
	if err != nil {
		return err
	}
	answer := new(p4v1.ReadResponse)
	size := 0
	send := func(e *p4v1.Entity) error {
		answer.Entities = append(answer.Entities, e)
		if size += proto.Size(e); size < answerBytes {
			return nil
		}
		err := stream.Send(answer)
		answer, size = new(p4v1.ReadResponse), 0
		return err
	}
	for _, entities := range found {
		if entities == nil {
			continue
		}
		if err := entities(send); err != nil {
			return err
		}
	}
	if len(answer.Entities) > 0 {
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	return batchError("some entities cannot be read", errs)
}

// visit makes entities of what was read, one after the other.
type visit func(send func(*p4v1.Entity) error) error

// find reads what each entity selects. Answers are made of it later, without the lock.
func (s *Server) find(r *p4v1.ReadRequest) (found []visit, errs []error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkDevice(r.GetDeviceId()); err != nil {
		return nil, nil, err
	}
	p, err := s.target()
	if err != nil {
		return nil, nil, err
	}
	q := query{running: p, values: make(map[*array][]uint64), lines: make(map[*table][]*entry)}
	found, errs = make([]visit, len(r.GetEntities())), make([]error, len(r.GetEntities()))
	for i, e := range r.GetEntities() {
		found[i], errs[i] = q.entity(e)
	}
	q.flush()
	for i := range errs {
		if errs[i] == nil && q.failed != nil {
			found[i], errs[i] = nil, q.failed
		}
	}
	return found, errs, nil
}

// query is a snapshot that the entities of one request share, whatever their number.
type query struct {
	*running
	values map[*array][]uint64
	lines  map[*table][]*entry

	request p4.Request
	pending int   // values that the request reads
	row     row   // of single places, which the request lacks yet
	failed  error // of the engine
}

// row are single places one after the other, which the engine reads at once.
type row struct {
	of    *array
	first int
	into  [][]uint64
}

func (q *query) entity(e *p4v1.Entity) (visit, error) {
	switch e := e.GetEntity().(type) {
	case nil:
		return nil, invalid("name an entity: an empty one selects nothing")
	case *p4v1.Entity_TableEntry:
		return q.tableEntry(e.TableEntry)
	case *p4v1.Entity_CounterEntry:
		c := e.CounterEntry
		return q.arrays(q.state.pipe.counters, c.GetCounterId(), c.GetIndex(), counterEntity)
	case *p4v1.Entity_RegisterEntry:
		r := e.RegisterEntry
		if q.state.pipe.noRegisters {
			return nil, errNoRegisters
		}
		return q.arrays(q.state.pipe.registers, r.GetRegisterId(), r.GetIndex(), registerEntity)
	}
	return nil, unimplemented(e)
}

func counterEntity(a *array, i int, v uint64) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: &p4v1.CounterEntry{
		CounterId: a.id, Index: &p4v1.Index{Index: int64(i)}, Data: &p4v1.CounterData{PacketCount: int64(v)},
	}}}
}

func registerEntity(a *array, i int, v uint64) *p4v1.Entity {
	return &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: &p4v1.RegisterEntry{
		RegisterId: a.id, Index: &p4v1.Index{Index: int64(i)},
		Data: &p4v1.P4Data{Data: &p4v1.P4Data_Bitstring{Bitstring: format(v)}},
	}}}
}

// arrays reads one place of an array, one array, or all without a number.
func (q *query) arrays(
	all []*array, id uint32, index *p4v1.Index, entity func(*array, int, uint64) *p4v1.Entity,
) (visit, error) {
	if id != 0 {
		a := arrayOf(all, id)
		if a == nil {
			return nil, invalid("the P4Info has no such array %d", id)
		}
		all = []*array{a}
	} else if index != nil {
		return nil, invalid("an index is of one array: give its id")
	}
	var first, n int
	values := make([][]uint64, len(all))
	for i, a := range all {
		var err error
		if first, n, err = a.span(index); err != nil {
			return nil, err
		}
		values[i] = q.read(a, first, n)
	}
	return func(send func(*p4v1.Entity) error) error {
		for i, a := range all {
			for j, v := range values[i] {
				if err := send(entity(a, first+j, v)); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// read plans to read places of an array, and an array as a whole only once. The values are there after the flush.
func (q *query) read(a *array, first, n int) []uint64 {
	if n == a.size && q.values[a] != nil {
		return q.values[a]
	}
	values := make([]uint64, n)
	if n == 1 {
		q.single(a, first, values)
		return values
	}
	q.endRow()
	for at := 0; at < n; {
		part := min(readBatch-q.pending, n-at)
		q.request.Read(a.name, first+at, values[at:at+part])
		at += part
		if q.pending += part; q.pending == readBatch {
			q.flush()
		}
	}
	if n == a.size {
		q.values[a] = values
	}
	return values
}

// single plans to read one place.
func (q *query) single(a *array, at int, into []uint64) {
	if q.row.of != a || q.row.first+len(q.row.into) != at {
		q.endRow()
		q.row = row{of: a, first: at}
	}
	q.row.into = append(q.row.into, into)
	if q.pending++; q.pending == readBatch {
		q.flush()
	}
}

// endRow adds the row to the request.
func (q *query) endRow() {
	if r := q.row; r.of != nil {
		q.request.Visit(r.of.name, r.first, len(r.into), func(i int, v uint64) { r.into[i-r.first][0] = v })
	}
	q.row = row{}
}

// flush reads what is planned.
func (q *query) flush() {
	q.endRow()
	if q.failed == nil {
		if err := q.engine.Do(&q.request); errors.Is(err, p4.ErrGone) {
			q.failed = status.Error(codes.Unavailable, err.Error())
		} else if err != nil {
			q.failed = status.Error(codes.Internal, err.Error())
		}
	}
	q.request, q.pending = p4.Request{}, 0
}

// tableEntry selects entries of one table, or all entries without a number.
func (q *query) tableEntry(e *p4v1.TableEntry) (visit, error) {
	if e.GetTableId() == 0 {
		if !proto.Equal(e, new(p4v1.TableEntry)) {
			return nil, invalid("without the id of a table, nothing else selects entries")
		}
		for _, t := range q.state.pipe.tables {
			q.snapshot(t)
		}
		return func(send func(*p4v1.Entity) error) error {
			for _, t := range q.state.pipe.tables {
				if err := sendEntries(send, t, q.lines[t], false); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
	t := q.state.pipe.tableOf(e.GetTableId())
	if t == nil {
		return nil, invalid("the P4Info has no table %d", e.GetTableId())
	}
	if e.GetMeterConfig() != nil || e.GetCounterData() != nil || e.GetMeterCounterData() != nil {
		return nil, invalid("table %s has no direct counter or meter", t.name)
	}
	lines, err := q.selected(t, e)
	if err != nil {
		return nil, err
	}
	return func(send func(*p4v1.Entity) error) error {
		return sendEntries(send, t, lines, e.GetIsDefaultAction())
	}, nil
}

// snapshot lists the entries of a table, in the order of their keys.
func (q *query) snapshot(t *table) []*entry {
	if q.lines[t] == nil {
		of := q.state.entries[t]
		q.lines[t] = make([]*entry, 0, len(of))
		for _, key := range slices.Sorted(maps.Keys(of)) {
			q.lines[t] = append(q.lines[t], of[key])
		}
	}
	return q.lines[t]
}

func (q *query) selected(t *table, e *p4v1.TableEntry) ([]*entry, error) {
	var lines []*entry
	switch {
	case e.GetIsDefaultAction() && len(e.GetMatch()) > 0:
		return nil, invalid("a default entry has no match")
	case e.GetIsDefaultAction():
		lines = []*entry{q.state.defaultOf(t)}
	case len(e.GetMatch()) > 0:
		match, err := t.match(e.GetMatch())
		if err != nil {
			return nil, err
		}
		if is := q.state.entries[t][keyOf(match)]; is != nil {
			lines = []*entry{is}
		}
	default:
		lines = q.snapshot(t)
	}
	action := e.GetAction().GetAction().GetActionId()
	if action != 0 && t.actionOf(action) == nil {
		return nil, invalid("table %s has no action %d", t.name, action)
	}
	if action == 0 && e.GetControllerMetadata() == 0 && len(e.GetMetadata()) == 0 && e.GetPriority() == 0 {
		return lines, nil
	}
	return slices.DeleteFunc(slices.Clone(lines), func(is *entry) bool {
		return action != 0 && is.action.id != action || e.GetPriority() != 0 ||
			e.GetControllerMetadata() != 0 && is.cookie != e.GetControllerMetadata() ||
			len(e.GetMetadata()) > 0 && string(is.metadata) != string(e.GetMetadata())
	}), nil
}

func sendEntries(send func(*p4v1.Entity) error, t *table, lines []*entry, isDefault bool) error {
	for _, is := range lines {
		e := is.message(t)
		e.IsDefaultAction = isDefault
		if err := send(&p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: e}}); err != nil {
			return err
		}
	}
	return nil
}

// message is the entry as a controller wrote it.
func (e *entry) message(t *table) *p4v1.TableEntry {
	m := &p4v1.TableEntry{TableId: t.id, ControllerMetadata: e.cookie, Metadata: e.metadata}
	for i, v := range e.match {
		m.Match = append(m.Match, &p4v1.FieldMatch{FieldId: t.keys[i].id, FieldMatchType: &p4v1.FieldMatch_Exact_{
			Exact: &p4v1.FieldMatch_Exact{Value: format(v)},
		}})
	}
	a := &p4v1.Action{ActionId: e.action.id}
	for i, v := range e.args {
		a.Params = append(a.Params, &p4v1.Action_Param{ParamId: e.action.params[i].id, Value: format(v)})
	}
	m.Action = &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: a}}
	return m
}
