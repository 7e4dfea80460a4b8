package baseline

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/netcraq/netcraq/spec"
)

// clientPort is where clients of the vectors have their sockets.
const clientPort = 50000

// ReadVectors reads a file of spec/baselines. A field that is not known is an error.
func ReadVectors(file string, into any) error {
	text, err := spec.Baselines.ReadFile("baselines/" + file)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("spec/baselines/%s: %w", file, err)
	}
	return nil
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
