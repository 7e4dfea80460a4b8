package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// identityPin is the file name under which a node's identity is pinned, before the first port is attached.
const identityPin = "identity"

// tableVersion is the meaning of the pinned tables. A change after which an older or newer program could not go on with
// them counts it up; any other change of the program leaves it, so that a node can be upgraded under load.
const tableVersion = 6

// identity is the common part of all programs that run on one set of pinned tables, one after the other. The sizes of
// tables are not here: the kernel knows them.
type identity struct {
	TableVersion uint32
	ShardMask    uint32
	CellBytes    uint32
	Addr         [4]byte
	Port         [2]byte
	Relay        uint8
	Without      uint8 // the low bits of the rules
	Tags         uint8 // of data planes before tags could change; not compared
	WithoutHigh  uint8
	Reserved     [10]byte
}

func identityOf(node netip.AddrPort, o chain.Options) identity {
	return identity{
		TableVersion: tableVersion, ShardMask: uint32(o.Shards - 1), CellBytes: uint32(o.CellBytes),
		Addr: node.Addr().As4(), Port: be16(node.Port()), Relay: flag(o.Relay), Without: uint8(o.Without),
		WithoutHigh: uint8(o.Without >> 8),
	}
}

// pin leaves the identity for a successor.
func (id identity) pin(directory string) error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "nq_identity", Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Put(uint32(0), id); err != nil {
		return err
	}
	if err := m.Pin(filepath.Join(directory, identityPin)); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("pinning below %s: %w", directory, err)
	}
	return nil
}

// readIdentity reads the identity that is pinned in a directory.
func readIdentity(directory string) (id identity, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(directory, identityPin), readOnly)
	if err != nil {
		return id, fmt.Errorf("%s: %w", directory, err)
	}
	defer m.Close()
	if err := m.Lookup(uint32(0), &id); err != nil {
		return id, errors.Join(staleError(directory), err)
	}
	return id, nil
}

// PinnedNode returns the address of the node whose data plane is pinned in a directory.
func PinnedNode(pin string) (netip.AddrPort, error) {
	id, err := readIdentity(pin)
	return nqMember{Addr: id.Addr, Port: id.Port}.addrPort(), err
}

// compare makes sure that a predecessor's pins, if there are any, belong to the same node.
func (id identity) compare(directory string) error {
	have, err := readIdentity(directory)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if have.Tags = id.Tags; have != id {
		return staleError(directory)
	}
	return nil
}
