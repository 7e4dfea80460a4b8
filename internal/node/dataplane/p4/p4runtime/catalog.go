package p4runtime

import (
	"fmt"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// catalog finds the numbers of a P4Info's parts by their names.
type catalog struct {
	tables  map[string]*config.Table
	actions map[string]*config.Action
	arrays  map[string]place
	in      []field           // in front of a frame to the CPU port
	out     map[string]uint32 // fields in front of a packet from the controller, by name
}

// place is an array of a switch.
type place struct {
	id      uint32
	size    int
	counter bool // otherwise registers
}

func catalogOf(info *config.P4Info) (*catalog, error) {
	c := &catalog{
		tables: make(map[string]*config.Table), actions: make(map[string]*config.Action), arrays: make(map[string]place),
		out: make(map[string]uint32),
	}
	for _, t := range info.GetTables() {
		c.tables[t.GetPreamble().GetName()] = t
	}
	for _, a := range info.GetActions() {
		c.actions[a.GetPreamble().GetName()] = a
	}
	for _, a := range info.GetCounters() {
		c.arrays[a.GetPreamble().GetName()] = place{a.GetPreamble().GetId(), int(a.GetSize()), true}
	}
	for _, a := range info.GetRegisters() {
		c.arrays[a.GetPreamble().GetName()] = place{a.GetPreamble().GetId(), int(a.GetSize()), false}
	}
	for _, m := range info.GetControllerPacketMetadata() {
		for _, f := range m.GetMetadata() {
			switch m.GetPreamble().GetName() {
			case packetIn:
				c.in = append(c.in, field{f.GetId(), f.GetName(), int(f.GetBitwidth())})
			case packetOut:
				c.out[f.GetName()] = f.GetId()
			}
		}
	}
	if len(c.in) == 0 || c.out[portField] == 0 {
		return nil, fmt.Errorf("the P4Info has no %s or no %s", packetIn, packetOut)
	}
	return c, nil
}

// entry is the message for an entry of a table. Without an action it is only its key.
func (c *catalog) entry(e *p4.Entry, key, action bool) (*p4v1.TableEntry, error) {
	t := c.tables[e.Table]
	if t == nil {
		return nil, fmt.Errorf("the P4Info has no table %s", e.Table)
	}
	m := &p4v1.TableEntry{TableId: t.GetPreamble().GetId()}
	if key {
		if len(e.Match) != len(t.GetMatchFields()) {
			return nil, fmt.Errorf("a key of table %s has %d fields, not %d", e.Table, len(t.GetMatchFields()), len(e.Match))
		}
		for i, f := range t.GetMatchFields() {
			m.Match = append(m.Match, &p4v1.FieldMatch{FieldId: f.GetId(), FieldMatchType: &p4v1.FieldMatch_Exact_{
				Exact: &p4v1.FieldMatch_Exact{Value: format(e.Match[i])},
			}})
		}
	}
	if !action {
		return m, nil
	}
	is, err := c.action(e)
	m.Action = &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: is}}
	return m, err
}

func (c *catalog) action(e *p4.Entry) (*p4v1.Action, error) {
	a := c.actions[e.Action]
	if a == nil {
		return nil, fmt.Errorf("the P4Info has no action %s", e.Action)
	}
	is := &p4v1.Action{ActionId: a.GetPreamble().GetId()}
	for _, arg := range e.Args {
		id := uint32(0)
		for _, p := range a.GetParams() {
			if p.GetName() == arg.Name {
				id = p.GetId()
			}
		}
		if id == 0 {
			return nil, fmt.Errorf("action %s has no parameter %s", e.Action, arg.Name)
		}
		is.Params = append(is.Params, &p4v1.Action_Param{ParamId: id, Value: format(arg.Value)})
	}
	return is, nil
}

// entity is a place of an array, with a value to write; nil: to read. Without an index it is the whole array.
func (p place) entity(index *p4v1.Index, value *uint64) *p4v1.Entity {
	if p.counter {
		e := &p4v1.CounterEntry{CounterId: p.id, Index: index}
		if value != nil {
			e.Data = &p4v1.CounterData{PacketCount: int64(*value)}
		}
		return &p4v1.Entity{Entity: &p4v1.Entity_CounterEntry{CounterEntry: e}}
	}
	e := &p4v1.RegisterEntry{RegisterId: p.id, Index: index}
	if value != nil {
		e.Data = &p4v1.P4Data{Data: &p4v1.P4Data_Bitstring{Bitstring: format(*value)}}
	}
	return &p4v1.Entity{Entity: &p4v1.Entity_RegisterEntry{RegisterEntry: e}}
}

// spot is one place of one array.
type spot struct {
	id    uint32
	index int64
}

// valueOf reads what a switch answered about a place.
func valueOf(e *p4v1.Entity) (spot, uint64, error) {
	switch e := e.GetEntity().(type) {
	case *p4v1.Entity_CounterEntry:
		c := e.CounterEntry
		return spot{c.GetCounterId(), c.GetIndex().GetIndex()}, uint64(c.GetData().GetPacketCount()), nil
	case *p4v1.Entity_RegisterEntry:
		r := e.RegisterEntry
		v, err := parse(r.GetData().GetBitstring(), maxBits)
		return spot{r.GetRegisterId(), r.GetIndex().GetIndex()}, v, err
	}
	return spot{}, 0, fmt.Errorf("the switch answers with %T", e.GetEntity())
}

// frameOf puts the header of a packet in front of it again.
func (c *catalog) frameOf(m *p4v1.PacketIn) ([]byte, error) {
	var header []byte
	used := 0 // bits of the last byte
	for _, f := range c.in {
		var v uint64
		for _, data := range m.GetMetadata() {
			if data.GetMetadataId() == f.id {
				var err error
				if v, err = parse(data.GetValue(), f.bits); err != nil {
					return nil, err
				}
			}
		}
		for bit := f.bits - 1; bit >= 0; bit-- {
			if used == 0 {
				header = append(header, 0)
			}
			header[len(header)-1] |= byte(v>>bit&1) << (7 - used)
			used = (used + 1) % 8
		}
	}
	return append(header, m.GetPayload()...), nil
}
