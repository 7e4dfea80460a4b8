package netchain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline"
)

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
	baseline.Route `yaml:",inline"`

	Op    string
	Wide  bool
	Seq   uint32
	Key   string
	Value string
	List  []string
}

type vectorPacket struct {
	baseline.WrittenPacket[vectorMessage] `yaml:",inline"`

	Cells map[string]vectorCell // that change
}

func readFile() (*baseline.File[vectorMessage, vectorCase], error) {
	return baseline.ReadFile[vectorMessage, vectorCase]("netchain.yaml")
}

// Vectors are the written cases.
func Vectors() ([]baseline.Case[State], error) {
	file, err := readFile()
	if err != nil {
		return nil, err
	}
	return baseline.ReadCases(file.Cases, (*vectorCase).read)
}

// Formats are the written messages.
func Formats() ([]baseline.Format[Message], error) {
	file, err := readFile()
	if err != nil {
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
	if one.Steps, err = baseline.ReadSteps(state, c.Packets, (*vectorPacket).read); err != nil {
		return one, err
	}
	return one, one.State.Validate()
}

// read makes a step of the packet, for a node in the state given.
func (p *vectorPacket) read(before *State) (baseline.Step[State], error) {
	step := baseline.Step[State]{Then: before.Clone()}
	packet := func(m *vectorMessage) (baseline.Packet, error) { return m.packet(before.Wide) }
	if err := baseline.ReadPackets(&step, &p.WrittenPacket, packet); err != nil {
		return step, err
	}
	step.Then.set(p.Cells)
	o, err := baseline.Named("outcome", p.Outcome, 0, Outcomes-1)
	step.Then.Counts[o]++
	return step, err
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
	rule := Rule{}
	if rule.Action, err = baseline.Named("action", r.Action, Skip, Replace); err != nil {
		return err
	}
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

func (v *vectorMessage) packet(wide bool) (baseline.Packet, error) {
	return v.Packet(Port, func() ([]byte, error) {
		m, err := v.message(wide)
		return m.Append(nil), err
	})
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
	var err error
	m.Op, err = baseline.Named("op", v.Op, Read, NotFound)
	return m, err
}

// keyOf is a key by its name, which stands at its end.
func keyOf(name string) (k Key) {
	copy(k[len(k)-min(len(name), len(k)):], name)
	return k
}
