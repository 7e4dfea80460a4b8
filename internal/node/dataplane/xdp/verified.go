package xdp

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// ProgramSizes returns how many instructions each program of a compiled object has. The object may be of another
// version.
func ProgramSizes(object io.ReaderAt) (map[string]int, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(object)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int)
	for name, p := range spec.Programs {
		sizes[name] = int(p.Instructions.Size() / wordBytes)
	}
	return sizes, nil
}

// wordBytes is the length of a BPF instruction. Those that load 64 bits have two such words.
const wordBytes = 8

// Processed loads the programs of a compiled object on trial, and returns how many instructions the kernel's
// verifier processed for each. The verifier refuses a program for which they are more than a million. The object may
// be of another version: constants and tables that it lacks are left out.
func Processed(object io.ReaderAt) (map[string]int, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(object)
	if err != nil {
		return nil, err
	}
	if err := onTrial(spec); err != nil {
		return nil, err
	}
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("loading the programs: %w", err)
	}
	defer collection.Close()
	processed := make(map[string]int)
	for name, p := range collection.Programs {
		info, err := p.Info()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n, ok := info.VerifiedInstructions(); ok {
			processed[name] = int(n)
		}
	}
	return processed, nil
}

// onTrial gives an object small tables and a node's constants. The mark and the secret, which are random, are left out: what the
// verifier processes depends on the values of constants.
func onTrial(spec *ebpf.CollectionSpec) error {
	o := chain.Options{Shards: 1, CellBytes: 64, MaxObjects: trialRows, MaxSessions: trialRows}
	c := constantsOf(anyNode, o)
	delete(c, "nq_mark")
	delete(c, "nq_secret")
	for name, value := range c {
		v := spec.Variables[name]
		if v == nil || v.Size() != uint32(binary.Size(value)) {
			continue
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if areas := spec.Maps["nq_areas"]; areas != nil {
		areas.MaxEntries, areas.ValueSize = nearbyAreas, uint32(nearbyReads*nearbyStride(o.CellBytes))
	}
	return resize(spec, o)
}
