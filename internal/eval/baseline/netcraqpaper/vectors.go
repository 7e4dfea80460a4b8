package netcraqpaper

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/netcraq/netcraq/internal/eval/baseline"
)

// vectorFile is spec/baselines/netcraqpaper.yaml.
type vectorFile struct {
	Formats []baseline.WrittenFormat[vectorMessage]
	Cases   []vectorCase
}

type vectorCase struct {
	Name     string
	Node     string   // default n2
	Chain    []string // head first; default n1, n2, n3
	Versions uint32   // default 3
	Objects  []vectorObject
	Packets  []vectorPacket
}

// vectorObject is an object's registers. Cells that are left out are zero.
type vectorObject struct {
	Read  uint32
	Write uint32
	Cells []string
}

type vectorMessage struct {
	From, To string
	Op       string
	Key      uint32
	Value    string
	Hex      string // instead of the fields
}

type vectorPacket struct {
	In      vectorMessage
	Outcome string
	Sent    []vectorMessage
	Object  *vectorObject // that of the packet's key, if it changes
}

// Vectors are the written cases.
func Vectors() ([]baseline.Case[State], error) {
	var file vectorFile
	if err := baseline.ReadVectors("netcraqpaper.yaml", &file); err != nil {
		return nil, err
	}
	return baseline.ReadCases(file.Cases, (*vectorCase).read)
}

// Formats are the written messages.
func Formats() ([]baseline.Format[Message], error) {
	var file vectorFile
	if err := baseline.ReadVectors("netcraqpaper.yaml", &file); err != nil {
		return nil, err
	}
	return baseline.ReadFormats(file.Formats, (*vectorMessage).message)
}

func (c *vectorCase) read() (baseline.Case[State], error) {
	one := baseline.Case[State]{Name: c.Name}
	config, err := c.config()
	if err != nil {
		return one, err
	}
	state := Empty(config)
	for i, o := range c.Objects {
		if err := state.set(uint32(i), &o); err != nil {
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

func (c *vectorCase) config() (Config, error) {
	chain := c.Chain
	if len(chain) == 0 {
		chain = []string{"n1", "n2", "n3"}
	}
	config := Config{Keys: uint32(max(1, len(c.Objects))), Versions: cmp.Or(c.Versions, 3)}
	for i, name := range chain {
		a, err := baseline.Host(name, Port)
		if err != nil {
			return config, err
		}
		switch {
		case name == cmp.Or(c.Node, "n2"):
			config.Self = a.Addr()
		default:
			config.Group = append(config.Group, a.Addr())
			if i > 0 && chain[i-1] == cmp.Or(c.Node, "n2") {
				config.Next = a.Addr()
			}
		}
		config.Tail = a.Addr()
	}
	return config, config.Validate()
}

func (s *State) set(key uint32, v *vectorObject) error {
	o := &s.Objects[key]
	o.ReadIndex, o.WriteIndex = v.Read, v.Write
	for i, text := range v.Cells {
		if i >= len(o.Cells) {
			return fmt.Errorf("%d cells for n = %d", len(v.Cells), len(o.Cells))
		}
		o.Cells[i] = valueOf(text)
	}
	return nil
}

func (p *vectorPacket) read(before *State) (baseline.Step[State], error) {
	step := baseline.Step[State]{Then: before.Clone()}
	var err error
	if step.In, err = p.In.packet(); err != nil {
		return step, err
	}
	for _, m := range p.Sent {
		sent, err := m.packet()
		if err != nil {
			return step, err
		}
		step.Sent = append(step.Sent, sent)
	}
	if p.Object != nil {
		if err := step.Then.set(p.In.Key, p.Object); err != nil {
			return step, err
		}
	}
	for o := range Outcomes {
		if o.String() == p.Outcome {
			step.Then.Counts[o]++
			return step, nil
		}
	}
	return step, fmt.Errorf("there is no outcome %q", p.Outcome)
}

func (v *vectorMessage) packet() (baseline.Packet, error) {
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
	m, err := v.message()
	p.Payload = m.Append(nil)
	return p, err
}

func (v *vectorMessage) message() (Message, error) {
	m := Message{Key: v.Key, Value: valueOf(v.Value)}
	for m.Op = Read; m.Op <= Acknowledge; m.Op++ {
		if m.Op.String() == v.Op {
			return m, nil
		}
	}
	return m, fmt.Errorf("there is no op %q", v.Op)
}

// valueOf is a text as a value, zeros behind it.
func valueOf(text string) (v Value) {
	copy(v[:], text)
	return v
}
