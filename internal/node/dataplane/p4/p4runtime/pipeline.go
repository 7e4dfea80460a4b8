package p4runtime

import (
	"fmt"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/netcraq/netcraq/p4/spec"
)

// pipeline is a P4Info whose parts are those of a compiled program.
type pipeline struct {
	info      *config.P4Info
	tables    []*table
	counters  []*array
	registers []*array
	in        []field // in front of a frame to the CPU port; none: frames come without a header
	out       []field // of a frame from a controller: the port by which it comes in; none: the CPU port

	noRegisters bool // controllers see none
}

type table struct {
	id       uint32
	name     string // the compiled program's, as the other names
	keys     []field
	actions  []*action
	original *entry // of keys without an entry
	constant bool   // original stays
	size     int
}

type action struct {
	id     uint32
	name   string
	params []field
	scope  config.ActionRef_Scope
}

type field struct {
	id   uint32
	name string
	bits int
}

// array is one of counters or of registers.
type array struct {
	id   uint32
	name string
	size int
	bits int
}

// resolve finds the parts of a P4Info in a compiled program.
func resolve(info *config.P4Info, program []byte) (*pipeline, error) {
	compiled, err := spec.Parse(string(program))
	if err != nil {
		return nil, fmt.Errorf("the device config is no compiled program: %w", err)
	}
	if err := supported(info); err != nil {
		return nil, err
	}
	r := resolver{info: info, program: compiled, ids: make(map[uint32]bool), pipe: &pipeline{info: info}}
	for _, t := range info.GetTables() {
		if err := r.table(t); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.GetPreamble().GetName(), err)
		}
	}
	for _, c := range info.GetCounters() {
		if err := r.counter(c); err != nil {
			return nil, fmt.Errorf("counter %s: %w", c.GetPreamble().GetName(), err)
		}
	}
	for _, reg := range info.GetRegisters() {
		if err := r.register(reg); err != nil {
			return nil, fmt.Errorf("register %s: %w", reg.GetPreamble().GetName(), err)
		}
	}
	for _, m := range info.GetControllerPacketMetadata() {
		if err := r.packets(m); err != nil {
			return nil, fmt.Errorf("header %s: %w", m.GetPreamble().GetName(), err)
		}
	}
	return r.pipe, nil
}

// supported refuses what the engine has none of.
func supported(info *config.P4Info) error {
	for what, n := range map[string]int{
		"action profiles": len(info.GetActionProfiles()), "meters": len(info.GetMeters()),
		"direct counters": len(info.GetDirectCounters()), "direct meters": len(info.GetDirectMeters()),
		"value sets": len(info.GetValueSets()), "digests": len(info.GetDigests()), "externs": len(info.GetExterns()),
	} {
		if n > 0 {
			return fmt.Errorf("the P4Info has %s: the switch has none", what)
		}
	}
	return nil
}

type resolver struct {
	info    *config.P4Info
	program *spec.Program
	ids     map[uint32]bool // in use
	pipe    *pipeline
}

// identify checks the number of a part, which no other part has.
func (r *resolver) identify(p *config.Preamble) (uint32, error) {
	id := p.GetId()
	if id == 0 || r.ids[id] {
		return 0, fmt.Errorf("the id %d is zero, or another part has it", id)
	}
	r.ids[id] = true
	return id, nil
}

// errOther says that a P4Info is of another program.
func errOther(format string, values ...any) error {
	const question = ": do the P4Info and the device config come from the same program?"
	return fmt.Errorf("the compiled program "+format+question, values...)
}

func (r *resolver) table(t *config.Table) error {
	id, err := r.identify(t.GetPreamble())
	if err != nil {
		return err
	}
	compiled := r.program.Table(t.GetPreamble().GetName())
	switch {
	case compiled == nil:
		return errOther("has no such table")
	case t.GetIsConstTable() || t.GetHasInitialEntries():
		return fmt.Errorf("the switch has no entries of programs")
	case t.GetImplementationId() != 0 || len(t.GetDirectResourceIds()) > 0:
		return fmt.Errorf("the switch has no action profiles or direct resources")
	case t.GetIdleTimeoutBehavior() != config.Table_NO_TIMEOUT:
		return fmt.Errorf("the switch has no timeouts of entries")
	case t.GetSize() < 0 || t.GetSize() > int64(compiled.Entries):
		return errOther("has %d entries instead of %d", compiled.Entries, t.GetSize())
	}
	is := &table{
		id: id, name: compiled.Name, size: int(t.GetSize()),
		constant: compiled.Const || t.GetConstDefaultActionId() != 0,
	}
	if is.size == 0 {
		is.size = compiled.Entries
	}
	if is.keys, err = r.keys(t, compiled); err != nil {
		return err
	}
	for _, ref := range t.GetActionRefs() {
		a, err := r.action(ref, compiled)
		if err != nil {
			return err
		}
		is.actions = append(is.actions, a)
		if a.name == compiled.Default {
			is.original = &entry{action: a}
		}
	}
	if is.original == nil {
		return errOther("has the default action %s, which the P4Info lacks", compiled.Default)
	}
	r.pipe.tables = append(r.pipe.tables, is)
	return nil
}

func (r *resolver) keys(t *config.Table, compiled *spec.Table) ([]field, error) {
	bits, err := r.program.KeyBits(compiled)
	if err != nil {
		return nil, err
	}
	if len(bits) != len(t.GetMatchFields()) {
		return nil, errOther("has a key of %d fields instead of %d", len(bits), len(t.GetMatchFields()))
	}
	var keys []field
	for i, m := range t.GetMatchFields() {
		if m.GetMatchType() != config.MatchField_EXACT || compiled.Keys[i].Kind != "exact" {
			return nil, fmt.Errorf("key %s: the switch matches exactly only", m.GetName())
		}
		keys = append(keys, field{m.GetId(), m.GetName(), int(m.GetBitwidth())})
	}
	return keys, checkFields(keys, bits)
}

// checkFields compares fields with the widths that the compiled program has.
func checkFields(fields []field, bits []int) error {
	ids := make(map[uint32]bool)
	for i, f := range fields {
		switch {
		case f.id == 0 || ids[f.id]:
			return fmt.Errorf("%s: the id %d is zero, or another field has it", f.name, f.id)
		case f.bits != bits[i]:
			return errOther("has %d bits for %s instead of %d", bits[i], f.name, f.bits)
		case f.bits < 1 || f.bits > maxBits:
			return fmt.Errorf("%s has %d bits: the switch has up to %d", f.name, f.bits, maxBits)
		}
		ids[f.id] = true
	}
	return nil
}

func (r *resolver) action(ref *config.ActionRef, t *spec.Table) (*action, error) {
	for _, a := range r.info.GetActions() {
		if a.GetPreamble().GetId() != ref.GetId() || ref.GetId() == 0 {
			continue
		}
		name := a.GetPreamble().GetName()
		compiled := t.Action(name)
		if compiled == nil {
			return nil, errOther("has no action %s there", name)
		}
		declared := r.program.Parameters(compiled.Name)
		if len(declared) != len(a.GetParams()) {
			return nil, errOther("has %d parameters of %s instead of %d", len(declared), name, len(a.GetParams()))
		}
		is := &action{id: ref.GetId(), name: compiled.Name, scope: ref.GetScope()}
		var bits []int
		for i, p := range a.GetParams() {
			is.params = append(is.params, field{p.GetId(), declared[i].Name, int(p.GetBitwidth())})
			bits = append(bits, declared[i].Bits)
		}
		return is, checkFields(is.params, bits)
	}
	return nil, fmt.Errorf("the P4Info has no action %d", ref.GetId())
}

func (r *resolver) array(p *config.Preamble, size int64, bits int) (*array, error) {
	id, err := r.identify(p)
	if err != nil {
		return nil, err
	}
	compiled := r.program.Array(p.GetName())
	switch {
	case compiled == nil:
		return nil, errOther("has no such array")
	case size != int64(compiled.Size) || size < 1:
		return nil, errOther("has a size of %d instead of %d", compiled.Size, size)
	case bits < 1 || bits > maxBits:
		return nil, fmt.Errorf("values have %d bits: the switch has 1 to %d", bits, maxBits)
	}
	return &array{id, compiled.Name, compiled.Size, bits}, nil
}

func (r *resolver) counter(c *config.Counter) error {
	if c.GetSpec().GetUnit() != config.CounterSpec_PACKETS {
		return fmt.Errorf("the switch counts packets only")
	}
	a, err := r.array(c.GetPreamble(), c.GetSize(), maxBits-1) // a count is an int64
	if err == nil {
		r.pipe.counters = append(r.pipe.counters, a)
	}
	return err
}

func (r *resolver) register(reg *config.Register) error {
	bit := reg.GetTypeSpec().GetBitstring().GetBit()
	if bit == nil {
		return fmt.Errorf("the switch has registers of bit<W> only")
	}
	a, err := r.array(reg.GetPreamble(), int64(reg.GetSize()), int(bit.GetBitwidth()))
	if err == nil {
		r.pipe.registers = append(r.pipe.registers, a)
	}
	return err
}

// Names of the headers of frames to and from controllers.
const (
	packetIn  = "packet_in"
	packetOut = "packet_out"
)

// portBits is the width of the number of a port.
const portBits = 8

func (r *resolver) packets(m *config.ControllerPacketMetadata) error {
	if _, err := r.identify(m.GetPreamble()); err != nil {
		return err
	}
	var fields []field
	var bits []int
	sum := 0
	for _, f := range m.GetMetadata() {
		fields = append(fields, field{f.GetId(), f.GetName(), int(f.GetBitwidth())})
		bits = append(bits, int(f.GetBitwidth()))
		sum += int(f.GetBitwidth())
	}
	if err := checkFields(fields, bits); err != nil {
		return err
	}
	switch m.GetPreamble().GetName() {
	case packetIn:
		if sum%8 != 0 || len(r.pipe.in) > 0 {
			return fmt.Errorf("a header of %d bits: want one header of whole bytes", sum)
		}
		r.pipe.in = fields
	case packetOut:
		if len(fields) != 1 || fields[0].bits != portBits {
			return fmt.Errorf("want one field of %d bits: the port by which a frame comes in", portBits)
		}
		r.pipe.out = fields
	default:
		return fmt.Errorf("the switch knows %s and %s", packetIn, packetOut)
	}
	return nil
}

// tableOf finds a table by its number.
func (p *pipeline) tableOf(id uint32) *table {
	for _, t := range p.tables {
		if t.id == id {
			return t
		}
	}
	return nil
}

func arrayOf(all []*array, id uint32) *array {
	for _, a := range all {
		if a.id == id {
			return a
		}
	}
	return nil
}

func (t *table) actionOf(id uint32) *action {
	for _, a := range t.actions {
		if a.id == id {
			return a
		}
	}
	return nil
}
