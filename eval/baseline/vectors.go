package baseline

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netcraq/netcraq/eval/spec"
)

// clientPort is where clients of the vectors have their sockets.
const clientPort = 50000

// File is a file of eval/spec, which writes messages as W and cases as C.
type File[W, C any] struct {
	Formats []WrittenFormat[W]
	Cases   []C
}

// ReadFile reads a file of eval/spec. A field that is not known is an error.
func ReadFile[W, C any](name string) (*File[W, C], error) {
	text, err := spec.Baselines.ReadFile(name)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	file := new(File[W, C])
	if err := decoder.Decode(file); err != nil {
		return nil, fmt.Errorf("eval/spec/%s: %w", name, err)
	}
	return file, nil
}

// ReadCases reads the written cases of a file. Of one that can't be read, too, read says the name.
func ReadCases[V, S any](written []V, read func(*V) (Case[S], error)) ([]Case[S], error) {
	cases := make([]Case[S], len(written))
	for i := range written {
		var err error
		if cases[i], err = read(&written[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", cases[i].Name, err)
		}
	}
	return cases, nil
}

// WrittenPacket is a packet of a case and what follows from it.
type WrittenPacket[W any] struct {
	In      W
	Outcome string
	Sent    []W
}

// ReadSteps reads the packets of a case, each for a node in the state after the one before it.
func ReadSteps[P, S any](state S, packets []P, read func(*P, *S) (Step[S], error)) ([]Step[S], error) {
	var steps []Step[S]
	for i := range packets {
		step, err := read(&packets[i], &state)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", i+1, err)
		}
		steps = append(steps, step)
		state = step.Then
	}
	return steps, nil
}

// ReadPackets reads the packet of a step and those that are sent for it.
func ReadPackets[S, W any](step *Step[S], p *WrittenPacket[W], read func(*W) (Packet, error)) (err error) {
	if step.In, err = read(&p.In); err != nil {
		return err
	}
	for i := range p.Sent {
		sent, err := read(&p.Sent[i])
		if err != nil {
			return err
		}
		step.Sent = append(step.Sent, sent)
	}
	return nil
}

// Route is the way of a written message.
type Route struct {
	From, To string
	Hex      string // the payload, instead of a message
}

// Packet makes a packet of a written message. Nodes have this port.
func (r *Route) Packet(port uint16, payload func() ([]byte, error)) (p Packet, err error) {
	if p.From, err = Host(r.From, port); err != nil {
		return p, err
	}
	if p.To, err = Host(r.To, port); err != nil {
		return p, err
	}
	if r.Hex != "" {
		p.Payload, err = hex.DecodeString(r.Hex)
		return p, err
	}
	p.Payload, err = payload()
	return p, err
}

// Named is the value with a name, between two values; what is a word for errors.
func Named[T interface {
	~int | ~uint8 | ~uint16 | ~uint32
	fmt.Stringer
}](what, name string, first, last T) (T, error) {
	for v := first; v <= last; v++ {
		if v.String() == name {
			return v, nil
		}
	}
	return first, fmt.Errorf("there is no %s %q", what, name)
}

// Format is a message of a protocol and its bytes.
type Format[M any] struct {
	Name    string
	Message M
	Bytes   []byte
}

// WrittenFormat is one as it stands in a file, which writes messages as W.
type WrittenFormat[W any] struct {
	Name    string
	Message W
	Hex     string
}

// ReadFormats reads the written messages of a file.
func ReadFormats[W, M any](written []WrittenFormat[W], read func(*W) (M, error)) ([]Format[M], error) {
	formats := make([]Format[M], len(written))
	for i := range written {
		w, f := &written[i], &formats[i]
		f.Name = w.Name
		var err error
		if f.Message, err = read(&w.Message); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		if f.Bytes, err = hex.DecodeString(w.Hex); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	return formats, nil
}

// Host is the address of a host by its name in the vectors: n1 is 10.88.0.1 with the port of nodes,
// c1 is 10.88.1.1, a client, with its own; "n1:53" is another port.
func Host(name string, nodePort uint16) (netip.AddrPort, error) {
	name, port, other := strings.Cut(name, ":")
	if len(name) < 2 || !strings.Contains("nc", name[:1]) {
		return netip.AddrPort{}, fmt.Errorf("%q is no host: want n1, c1 or n1:53", name)
	}
	number, err := strconv.ParseUint(name[1:], 10, 8)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("host %q: %w", name, err)
	}
	address, at := [4]byte{10, 88, 0, byte(number)}, nodePort
	if name[0] == 'c' {
		address[2], at = 1, clientPort
	}
	if other {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("host %q: port %w", name, err)
		}
		at = uint16(n)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(address), at), nil
}
