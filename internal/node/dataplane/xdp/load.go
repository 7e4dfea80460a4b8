package xdp

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// pinned are the maps that outlive the process. The others hold nothing that is missed after it.
var pinned = []string{
	"nq_live", "nq_chains", "nq_objects", "nq_reaches", "nq_insert_locks", "nq_sessions", "nq_counters", "nq_loads", "nq_usage", "nq_punts", "nq_ports",
	"nq_groups", "nq_descriptors", "nq_next_descriptor", "nq_keys", "nq_heart", "nq_programs",
	"nq_holders",
}

// programBundle is the entry of nq_programs that nq_ingress goes on with for bundles.
const programBundle = uint32(0)

// objects holds the programs and maps of netcraq.o in the kernel.
type objects struct {
	Ingress    *ebpf.Program `ebpf:"nq_ingress"`
	Bundle     *ebpf.Program `ebpf:"nq_bundle"`
	Egress     *ebpf.Program `ebpf:"nq_egress"`
	Grow       *ebpf.Program `ebpf:"nq_grow"`
	EgressTest *ebpf.Program `ebpf:"nq_egress_test"`
	SetHeart   *ebpf.Program `ebpf:"nq_set_heart"`

	Export         *ebpf.Program `ebpf:"nq_export"`
	Import         *ebpf.Program `ebpf:"nq_import"`
	Collect        *ebpf.Program `ebpf:"nq_collect"`
	GiveUp         *ebpf.Program `ebpf:"nq_give_up"`
	ExportSessions *ebpf.Program `ebpf:"nq_export_sessions"`
	ImportSessions *ebpf.Program `ebpf:"nq_import_sessions"`
	DropSessions   *ebpf.Program `ebpf:"nq_drop_sessions"`

	TestNow *ebpf.Variable `ebpf:"nq_test_now_ns"`

	Live      *ebpf.Map `ebpf:"nq_live"`
	Chains    *ebpf.Map `ebpf:"nq_chains"`
	Objects   *ebpf.Map `ebpf:"nq_objects"`
	Reaches   *ebpf.Map `ebpf:"nq_reaches"`
	Inserts   *ebpf.Map `ebpf:"nq_insert_locks"`
	Refusals  *ebpf.Map `ebpf:"nq_refusals"`
	Sessions  *ebpf.Map `ebpf:"nq_sessions"`
	Holders   *ebpf.Map `ebpf:"nq_holders"`
	Counters  *ebpf.Map `ebpf:"nq_counters"`
	Loads     *ebpf.Map `ebpf:"nq_loads"`
	Usage     *ebpf.Map `ebpf:"nq_usage"`
	Punts     *ebpf.Map `ebpf:"nq_punts"`
	Contended *ebpf.Map `ebpf:"nq_contended"`
	Ports     *ebpf.Map `ebpf:"nq_ports"`
	Cells     *ebpf.Map `ebpf:"nq_port_cells"`
	Groups    *ebpf.Map `ebpf:"nq_groups"`
	Keys      *ebpf.Map `ebpf:"nq_keys"`
	Heart     *ebpf.Map `ebpf:"nq_heart"`
	Programs  *ebpf.Map `ebpf:"nq_programs"`
	Answered  *ebpf.Map `ebpf:"nq_answered"`
}

func (o *objects) close() {
	for _, p := range []*ebpf.Program{
		o.Ingress, o.Bundle, o.Egress, o.Grow, o.EgressTest, o.DropSessions, o.SetHeart, o.Export, o.Import, o.ExportSessions,
		o.ImportSessions, o.Collect, o.GiveUp,
	} {
		p.Close()
	}
	for _, m := range o.maps() {
		m.Close()
	}
}

// maps are the tables by name.
func (o *objects) maps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		"nq_live": o.Live, "nq_chains": o.Chains, "nq_objects": o.Objects, "nq_sessions": o.Sessions,
		"nq_counters": o.Counters, "nq_loads": o.Loads, "nq_usage": o.Usage, "nq_punts": o.Punts,
		"nq_contended": o.Contended, "nq_ports": o.Ports, "nq_port_cells": o.Cells, "nq_groups": o.Groups,
		"nq_keys": o.Keys, "nq_heart": o.Heart, "nq_programs": o.Programs, "nq_answered": o.Answered,
		"nq_reaches": o.Reaches, "nq_insert_locks": o.Inserts, "nq_refusals": o.Refusals, "nq_holders": o.Holders,
	}
}

// constants are the load-time constants of the program, by name.
type constants map[string]any

func constantsOf(node netip.AddrPort, o chain.Options) constants {
	return constants{
		"nq_self_addr":       node.Addr().As4(),
		"nq_pod_addr":        [4]byte{},
		"nq_detours":         flag(hasTCX()),
		"nq_mark":            newMark(),
		"nq_self_port":       be16(node.Port()),
		"nq_shard_mask":      uint32(o.Shards - 1),
		"nq_cell_bytes":      uint32(o.CellBytes),
		"nq_without":         uint16(o.Without),
		"nq_relay":           flag(o.Relay),
		"nq_tags":            uint8(o.Tags),
		"nq_client_rate":     uint32(o.ClientRate),
		"nq_client_sessions": uint32(min(o.ClientSessions, math.MaxUint32)),
		"nq_answer_rate":     uint32(o.AnswerRate),
		"nq_contended_ns":    uint32(dataplane.ContendedAfter),
		"nq_weak_memory":     weakMemory(),
		"nq_places":          uint32(places(o)),
		"nq_max_objects":     uint32(min(o.MaxObjects, math.MaxUint32)),
		"nq_secret":          newSecret(),
	}
}

// hasTCX reports whether the kernel takes nq_grow at tc ingress: from Linux 6.6 on.
func hasTCX() bool {
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopbackIndex, Attach: ebpf.AttachTCXIngress})
	return err == nil
}

// weakMemory is whether the CPU reorders loads.
func weakMemory() uint8 { return flag(runtime.GOARCH != "amd64") }

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// prepare reads the compiled program and sizes its tables.
func prepare(o chain.Options, c constants) (*ebpf.CollectionSpec, error) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		return nil, fmt.Errorf("the XDP program in this binary: %w", err)
	}
	if err := isCurrent(spec, partsOfNode(c)); err != nil {
		return nil, err
	}
	for name, value := range c {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return spec, resize(spec, o)
}

// resize gives the tables of an object the sizes of a node's. An object of another version may lack some of them.
func resize(spec *ebpf.CollectionSpec, o chain.Options) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for name, size := range map[string]struct{ rows, value uint32 }{
		"nq_live":     {rows: uint32(liveRows(o.Shards))},
		"nq_chains":   {rows: uint32(2 * o.Shards)},
		"nq_sessions": {rows: uint32(o.MaxSessions)},
		"nq_loads":    {rows: uint32(cpus * loadRow(o.Shards))},
		"nq_counters": {rows: uint32(cpus * counterRow)},
	} {
		if m := spec.Maps[name]; m != nil {
			m.MaxEntries, m.ValueSize = cmp.Or(size.rows, m.MaxEntries), cmp.Or(size.value, m.ValueSize)
		}
	}
	if m := spec.Maps["nq_sessions"]; m != nil && o.MaxSessions > sessionsAtOnce {
		m.Flags |= unix.BPF_F_NO_PREALLOC
	}
	return resizeObjects(spec, o)
}

// ErrStalePins says that the pins found belong to a data plane of another shape.
var ErrStalePins = errors.New("a data plane with other options, or of another version, is pinned there")

// load puts the program into the kernel; with a pin directory, on top of the tables that are pinned there. hashFlags
// are of the table of sessions.
func load(o chain.Options, c constants, pin string, hashFlags uint32) (*objects, error) {
	spec, err := prepare(o, c)
	if err != nil {
		return nil, err
	}
	var options ebpf.CollectionOptions
	if pin != "" {
		for _, name := range pinned {
			spec.Maps[name].Pinning = ebpf.PinByName
		}
		options.Maps.PinPath = pin
		if err := keepAllocation(spec.Maps["nq_sessions"], pin); err != nil {
			return nil, err
		}
	}
	return loadSpec(spec, options, hashFlags)
}

// loadSpec loads what prepare returned.
func loadSpec(spec *ebpf.CollectionSpec, options ebpf.CollectionOptions, hashFlags uint32) (*objects, error) {
	spec.Maps["nq_sessions"].Flags |= hashFlags
	out := new(objects)
	if err := spec.LoadAndAssign(out, &options); err != nil {
		return nil, explainLoad(err, options.Maps.PinPath)
	}
	if err := out.Programs.Put(programBundle, out.Bundle); err != nil {
		out.close()
		return nil, fmt.Errorf("the program for bundles: %w", err)
	}
	return out, nil
}

func staleError(pin string) error {
	return fmt.Errorf("%s: %w: remove it with `netcraq node --remove --pin %s` (its objects are lost), "+
		"or start with the options it was made with",
		pin, ErrStalePins, pin)
}

var native = binary.NativeEndian

func appendNative(b []byte, v any) ([]byte, error) { return binary.Append(b, native, v) }
