package netcraqpaper

import (
	"cmp"
	"fmt"

	"github.com/netcraq/netcraq/eval/baseline"
)

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
	baseline.Route `yaml:",inline"`

	Op    string
	Key   uint32
	Value string
}

type vectorPacket struct {
	baseline.WrittenPacket[vectorMessage] `yaml:",inline"`

	Object *vectorObject // that of the packet's key, if it changes
}

func readFile() (*baseline.File[vectorMessage, vectorCase], error) {
	return baseline.ReadFile[vectorMessage, vectorCase]("netcraqpaper.yaml")
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
	if one.Steps, err = baseline.ReadSteps(state, c.Packets, (*vectorPacket).read); err != nil {
		return one, err
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
	if err := baseline.ReadPackets(&step, &p.WrittenPacket, (*vectorMessage).packet); err != nil {
		return step, err
	}
	if p.Object != nil {
		if err := step.Then.set(p.In.Key, p.Object); err != nil {
			return step, err
		}
	}
	o, err := baseline.Named("outcome", p.Outcome, 0, Outcomes-1)
	step.Then.Counts[o]++
	return step, err
}

func (v *vectorMessage) packet() (baseline.Packet, error) {
	return v.Packet(Port, func() ([]byte, error) {
		m, err := v.message()
		return m.Append(nil), err
	})
}

func (v *vectorMessage) message() (Message, error) {
	m := Message{Key: v.Key, Value: valueOf(v.Value)}
	var err error
	m.Op, err = baseline.Named("op", v.Op, Read, Acknowledge)
	return m, err
}

// valueOf is a text as a value, zeros behind it.
func valueOf(text string) (v Value) {
	copy(v[:], text)
	return v
}
