package p4runtime

import (
	"context"
	"errors"
	"fmt"
	"io"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/switchv1"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Do implements [p4.Switch]: rows of places if it changes no table; else one atomic Write, then a read.
func (r *Remote) Do(request *p4.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.Err(); err != nil {
		return err
	}
	if len(request.Changes()) == 0 && !r.byPlace && together(request) {
		return r.doRows(request.Accesses())
	}
	b := batch{catalog: r.catalog, present: r.present, at: make(map[spot]int)}
	if err := b.plan(request); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	if len(b.updates) > 0 && len(b.reads) > 0 && r.holds == 0 && !r.steps {
		if err := r.pause(true); err != nil {
			return err
		}
		return errors.Join(r.do(&b), r.pause(false))
	}
	return r.do(&b)
}

func (r *Remote) do(b *batch) error {
	if len(b.updates) > 0 {
		if err := r.write(b.updates); err != nil {
			return err
		}
		r.keep(b.updates)
	}
	switch {
	case len(b.reads) == 0:
		return nil
	case r.byPlace:
		return r.readPlaces(b.reads)
	}
	return r.doRows(b.reads)
}

// together reports whether rows can make all changes of a request at once.
func together(request *p4.Request) bool {
	places, writes := 0, false
	for _, a := range request.Accesses() {
		places += a.Count
		writes = writes || a.Visit == nil
	}
	return !writes || places <= readBatch
}

// batch is what a request asks of a switch.
type batch struct {
	*catalog
	present map[uint32]map[string]*p4v1.TableEntry
	updates []*p4v1.Update
	reads   []p4.Access
	at      map[spot]int // the update of a place
}

// plan makes at most one update of each entry and of each place, because a switch may take them in any order.
func (b *batch) plan(request *p4.Request) error {
	if err := b.tables(request.Changes()); err != nil {
		return err
	}
	for _, a := range request.Accesses() {
		if err := b.access(&a); err != nil {
			return err
		}
	}
	return nil
}

// tables plans the changes of tables: deletions first, which make room.
func (b *batch) tables(changes []p4.Change) error {
	last := make(map[string]int, len(changes))
	keys := make([]string, len(changes))
	messages := make([]*p4v1.TableEntry, len(changes))
	for i := range changes {
		c := &changes[i]
		var err error
		if messages[i], err = b.entry(&c.Entry, c.Kind != p4.SetDefault, c.Kind != p4.Remove); err != nil {
			return err
		}
		messages[i].IsDefaultAction = c.Kind == p4.SetDefault
		keys[i] = c.Entry.Table + keyOf(c.Entry.Match)
		if c.Kind == p4.SetDefault {
			keys[i] = c.Entry.Table
		}
		last[keys[i]] = i
	}
	var others []*p4v1.Update
	for i, m := range messages {
		if last[keys[i]] != i {
			continue
		}
		_, there := b.present[m.GetTableId()][entryKey(m)]
		switch kind := changes[i].Kind; {
		case kind == p4.SetDefault, kind == p4.Put && there:
			others = append(others, updateOf(p4v1.Update_MODIFY, m))
		case kind == p4.Put:
			others = append(others, updateOf(p4v1.Update_INSERT, m))
		case there:
			b.updates = append(b.updates, updateOf(p4v1.Update_DELETE, m))
		}
	}
	b.updates = append(b.updates, others...)
	return nil
}

func updateOf(kind p4v1.Update_Type, m *p4v1.TableEntry) *p4v1.Update {
	return &p4v1.Update{Type: kind, Entity: &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: m}}}
}

// entryKey is an entry's key, as a string.
func entryKey(m *p4v1.TableEntry) string {
	var b []byte
	for _, f := range m.GetMatch() {
		v := f.GetExact().GetValue()
		b = append(append(b, byte(len(v))), v...)
	}
	return string(b)
}

func (b *batch) access(a *p4.Access) error {
	of, ok := b.arrays[a.Array]
	if !ok {
		return errNoArray(a.Array)
	}
	if a.Visit != nil {
		b.reads = append(b.reads, *a)
		return nil
	}
	for i := range a.Values {
		at := spot{of.id, int64(a.First + i)}
		u := &p4v1.Update{
			Type: p4v1.Update_MODIFY, Entity: of.entity(&p4v1.Index{Index: at.index}, &a.Values[i]),
		}
		if n, again := b.at[at]; again {
			b.updates[n] = u
			continue
		}
		b.at[at] = len(b.updates)
		b.updates = append(b.updates, u)
	}
	return nil
}

// write makes all updates. A switch that made a part of them only is lost.
func (r *Remote) write(updates []*p4v1.Update) error {
	if r.atomic == p4v1.WriteRequest_DATAPLANE_ATOMIC {
		return r.tryWrite(updates)
	}
	err := r.fits(updates)
	if err == nil {
		if err = r.tryWrite(updates); err != nil {
			err = r.lost(fmt.Errorf("it made a part of a change only: %w", err))
		}
	}
	return err
}

// tryWrite makes all updates or none, if the switch can.
func (r *Remote) tryWrite(updates []*p4v1.Update) error {
	ctx, cancel := context.WithTimeout(r.ctx, r.target.Patience)
	defer cancel()
	_, err := r.calls.Write(ctx, &p4v1.WriteRequest{
		DeviceId: r.target.Device, ElectionId: r.id, Updates: updates, Atomicity: r.atomic,
	})
	if err != nil {
		return r.partial(err)
	}
	return nil
}

// partial is the error of a batch: that of the first part that says why. A part that does not fit the pipeline may be
// of one that another controller set.
func (r *Remote) partial(err error) error {
	for _, d := range status.Convert(err).Details() {
		e, ok := d.(*p4v1.Error)
		if code := codes.Code(e.GetCanonicalCode()); !ok || code == codes.OK || code == codes.Aborted {
			continue
		}
		err = status.Error(codes.Code(e.GetCanonicalCode()), e.GetMessage())
		break
	}
	switch err := r.explain(err); {
	case r.Err() != nil:
		return err
	case status.Code(err) == codes.ResourceExhausted:
		return fmt.Errorf("switch: a table is full, and none of the changes was made: %s", status.Convert(err).Message())
	default:
		if other := r.checkPipeline(); other != nil {
			return other
		}
		return fmt.Errorf("switch: %w", err)
	}
}

// keep notes which entries the tables have now.
func (r *Remote) keep(updates []*p4v1.Update) {
	for _, u := range updates {
		m := u.GetEntity().GetTableEntry()
		if m == nil || m.GetIsDefaultAction() {
			continue
		}
		of := r.present[m.GetTableId()]
		if of == nil {
			of = make(map[string]*p4v1.TableEntry)
			r.present[m.GetTableId()] = of
		}
		if u.GetType() == p4v1.Update_DELETE {
			delete(of, entryKey(m))
		} else {
			of[entryKey(m)] = &p4v1.TableEntry{TableId: m.GetTableId(), Match: m.GetMatch()}
		}
	}
}

// clear takes out all entries.
func (r *Remote) clear() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var updates []*p4v1.Update
	for _, of := range r.present {
		for _, m := range of {
			updates = append(updates, updateOf(p4v1.Update_DELETE, m))
		}
	}
	if len(updates) == 0 {
		return nil
	}
	return r.write(updates)
}

// give visits the value of place i of an access. A sparse access does not visit zeros.
func give(a *p4.Access, i int, v uint64) {
	if v != 0 || !a.Sparse {
		a.Visit(a.First+i, v)
	}
}

// doRows reads and writes by requests of this project, of up to readBatch places.
func (r *Remote) doRows(accesses []p4.Access) error {
	var q rows
	for i := range accesses {
		a := &accesses[i]
		of, ok := r.catalog.arrays[a.Array]
		if !ok {
			return fmt.Errorf("switch: %w", errNoArray(a.Array))
		}
		for at := 0; at < a.Count; {
			n := min(a.Count-at, readBatch-q.count)
			q.add(a, of, at, n)
			if at += n; q.count < readBatch {
				continue
			}
			if err := r.askRows(&q); err != nil {
				return err
			}
			q = rows{}
		}
	}
	if q.count == 0 {
		return nil
	}
	return r.askRows(&q)
}

func errNoArray(name string) error { return fmt.Errorf("the P4Info has no array %s", name) }

// rows are parts of accesses that one request makes.
type rows struct {
	list  []*switchv1.Row
	reads []part
	count int // places
}

// part is a part of an access that reads.
type part struct {
	of        *p4.Access
	at, count int
}

func (q *rows) add(a *p4.Access, of place, at, n int) {
	row := &switchv1.Row{Array: of.id, First: uint32(a.First + at)}
	if a.Visit == nil {
		row.Values = a.Values[at : at+n]
	} else {
		row.Count = uint32(n)
		q.reads = append(q.reads, part{a, at, n})
	}
	q.list = append(q.list, row)
	q.count += n
}

func (r *Remote) askRows(q *rows) error {
	answer, err := r.ask(&switchv1.Request{What: &switchv1.Request_Rows{Rows: &switchv1.Rows{Rows: q.list}}})
	if err != nil {
		return r.partial(err)
	}
	values := answer.GetValues()
	for _, p := range q.reads {
		if len(values) < p.count {
			return errors.New("switch: some values were not answered")
		}
		for i, v := range values[:p.count] {
			give(p.of, p.at+i, v)
		}
		values = values[p.count:]
	}
	return nil
}

// wholeAbove is the part of an array from which on all of it is read at once.
const wholeAbove = 0.5

// readPlaces reads by one message for each place.
func (r *Remote) readPlaces(reads []p4.Access) error {
	var entities []*p4v1.Entity
	for _, a := range reads {
		of := r.catalog.arrays[a.Array]
		if float64(a.Count) > wholeAbove*float64(of.size) {
			entities = append(entities, of.entity(nil, nil))
			continue
		}
		for i := range a.Count {
			entities = append(entities, of.entity(&p4v1.Index{Index: int64(a.First + i)}, nil))
		}
	}
	values, err := r.read(entities)
	if err != nil {
		return err
	}
	for _, a := range reads {
		for i := range a.Count {
			v, ok := values[spot{r.catalog.arrays[a.Array].id, int64(a.First + i)}]
			if !ok {
				return fmt.Errorf("switch: no value of %s at %d was answered", a.Array, a.First+i)
			}
			give(&a, i, v)
		}
	}
	return nil
}

func (r *Remote) read(entities []*p4v1.Entity) (map[spot]uint64, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.target.Patience)
	defer cancel()
	stream, err := r.calls.Read(ctx, &p4v1.ReadRequest{DeviceId: r.target.Device, Entities: entities})
	if err != nil {
		return nil, r.explain(err)
	}
	values := make(map[spot]uint64, len(entities))
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, r.partial(err)
		}
		for _, e := range m.GetEntities() {
			at, v, err := valueOf(e)
			if err != nil {
				return nil, fmt.Errorf("switch: an answer: %w", err)
			}
			values[at] = v
		}
	}
}
