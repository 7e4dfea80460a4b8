package netchain

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/internal/eval/baseline"
)

// vectorFile is spec/baselines/netchain.yaml.
type vectorFile struct {
	Formats []baseline.WrittenFormat[vectorMessage]
	Cases   []vectorCase
}

type vectorCase struct {
	Name       string
	Node       string // default n2
	Wide       bool
	Slots      int // default 2
	ValueBytes int `yaml:"value_bytes"` // default 64
	Groups     int // default 1
	Cells      map[string]vectorCell
	Rules      []vectorRule
	Packets    []vectorPacket
}

type vectorCell struct {
	Seq   uint32
	Value string
}

type vectorRule struct {
	To     string
	Group  uint16
	Action string
	By     string
}

type vectorMessage struct {
	From, To string
	Op       string
	Wide     bool
	Seq      uint32
	Key      string
	Value    string
	List     []string
	Hex      string // instead of the fields
}

type vectorPacket struct {
	In      vectorMessage
	Outcome string
	Sent    []vectorMessage
	Cells   map[string]vectorCell // that change
}

// Vectors are the written cases.
func Vectors() ([]baseline.Case[State], error) {
	var file vectorFile
	if err := baseline.ReadVectors("netchain.yaml", &file); err != nil {
		return nil, err
	}
	return baseline.ReadCases(file.Cases, (*vectorCase).read)
}

// Formats are the written messages.
func Formats() ([]baseline.Format[Message], error) {
	var file vectorFile
	if err := baseline.ReadVectors("netchain.yaml", &file); err != nil {
		return nil, err
	}
	return baseline.ReadFormats(file.Formats, func(m *vectorMessage) (Message, error) { return m.message(m.Wide) })
}

func (c *vectorCase) read() (baseline.Case[State], error) {
	one := baseline.Case[State]{Name: c.Name}
	self, err := baseline.Host(cmp.Or(c.Node, "n2"), Port)
	if err != nil {
		return one, err
	}
	state := State{
		Config: Config{
			Self:       self.Addr(),
			Wide:       c.Wide,
			Slots:      cmp.Or(c.Slots, 2),
			ValueBytes: cmp.Or(c.ValueBytes, 64),
			Groups:     cmp.Or(c.Groups, 1),
		},
		Index: make(map[Key]uint32), Rules: make(map[Target]Rule),
	}
	state.Cells = make([]Cell, state.Slots)
	for slot, name := range slices.Sorted(maps.Keys(c.Cells)) {
		state.Index[keyOf(name)] = uint32(slot)
	}
	state.set(c.Cells)
	for _, r := range c.Rules {
		if err := state.addRule(r); err != nil {
			return one, err
		}
	}
	one.State = state
	for i, p := range c.Packets {
		step, err := p.read(&state)
		if err != nil {
			return one, fmt.Errorf("packet %d: %w", i+1, err)
		}
		one.Steps = append(one.Steps, step)
		state = step.Then
	}
	return one, one.State.Validate()
}

// read makes a step of the packet, for a node in the state given.
func (p *vectorPacket) read(before *State) (baseline.Step[State], error) {
	step := baseline.Step[State]{Then: before.Clone()}
	var err error
	if step.In, err = p.In.packet(before.Wide); err != nil {
		return step, err
	}
	for _, m := range p.Sent {
		sent, err := m.packet(before.Wide)
		if err != nil {
			return step, err
		}
		step.Sent = append(step.Sent, sent)
	}
	step.Then.set(p.Cells)
	for o := range Outcomes {
		if o.String() == p.Outcome {
			step.Then.Counts[o]++
			return step, nil
		}
	}
	return step, fmt.Errorf("there is no outcome %q", p.Outcome)
}

func (s *State) set(cells map[string]vectorCell) {
	for name, c := range cells {
		s.Cells[s.Index[keyOf(name)]] = Cell{c.Seq, []byte(c.Value)}
	}
}

func (s *State) addRule(r vectorRule) error {
	to, err := baseline.Host(r.To, Port)
	if err != nil {
		return err
	}
	for action := Skip; action <= Replace; action++ {
		if action.String() != r.Action {
			continue
		}
		rule := Rule{Action: action}
		if r.By != "" {
			by, err := baseline.Host(r.By, Port)
			if err != nil {
				return err
			}
			rule.By = by.Addr()
		}
		s.Rules[Target{to.Addr(), r.Group}] = rule
		return nil
	}
	return fmt.Errorf("there is no action %q", r.Action)
}

func (v *vectorMessage) packet(wide bool) (baseline.Packet, error) {
	var p baseline.Packet
	var err error
	if p.From, err = baseline.Host(v.From, Port); err != nil {
		return p, err
	}
	if p.To, err = baseline.Host(v.To, Port); err != nil {
		return p, err
	}
	if v.Hex != "" {
		p.Payload, err = hex.DecodeString(v.Hex)
		return p, err
	}
	m, err := v.message(wide)
	p.Payload = m.Append(nil)
	return p, err
}

func (v *vectorMessage) message(wide bool) (Message, error) {
	m := Message{Wide: wide, Seq: v.Seq, Key: keyOf(v.Key), Value: []byte(v.Value)}
	for _, name := range v.List {
		a, err := baseline.Host(name, Port)
		if err != nil {
			return m, err
		}
		m.List = append(m.List, a.Addr())
	}
	for m.Op = Read; m.Op <= NotFound; m.Op++ {
		if m.Op.String() == v.Op {
			return m, nil
		}
	}
	return m, fmt.Errorf("there is no op %q", v.Op)
}

// keyOf is a key by its name, which stands at its end.
func keyOf(name string) (k Key) {
	copy(k[len(k)-min(len(name), len(k)):], name)
	return k
}
