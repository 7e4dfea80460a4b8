package xdp

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the compiled programs
	"fmt"
	"io"

	"github.com/cilium/ebpf"
)

// The object files are compressed because every installed binary carries them. They keep their line information,
// which the verifier's messages quote.

//go:embed netcraq.o.gz
var netcraqObject []byte

// Programs returns the programs of a node by name, as they are compiled.
func Programs() (map[string]*ebpf.ProgramSpec, error) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		return nil, err
	}
	return spec.Programs, nil
}

// readObject parses a compressed object file.
func readObject(compressed []byte) (*ebpf.CollectionSpec, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	object, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
}
