package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// objectTable is the table of objects as the agent uses it beside the programs: bpf/node/objects.h. Only this file
// knows how it is made. The agent reads the cells in memory, and has programs change them, because a program that holds a lock
// ends, and an agent may be killed.
type objectTable struct {
	memory []uint64 // the cells
	words  int      // of a cell
	cells  int
	reach  []uint64 // of places
	giveUp *ebpf.Program
}

const (
	// runCells is the longest reach.
	runCells = 1024
	// lineReaches is the number of reaches in a cache line.
	lineReaches = 32
)

// Bits of a cell's shape: NQ_*.
const (
	shapeLength    = 1<<11 - 1
	shapeTombstone = 1 << 12
	shapeClean     = 1 << 13
	shapeUsed      = 1 << 15
)

// places is the number of places, in whole lines of reaches. Two thirds of their cells are used in a full table. Then an
// object lies in the second cell from its place in the mean, after many removals in the fourth, and none farther than some
// 150. Of long values four fifths are used, because cells are large: the seventh, and 400.
func places(o chain.Options) int {
	more := o.MaxObjects / 2
	if objectEntryBytes(o) > 2*lineBytes {
		more = o.MaxObjects / 4
	}
	return (o.MaxObjects + more + lineReaches) / lineReaches * lineReaches
}

// objectEntryBytes is the size of a cell.
func objectEntryBytes(o chain.Options) int { return objectBytes + cellBytes(o) }

// resizeObjects gives the tables of objects their sizes. No object lies farther from its place than there are objects.
func resizeObjects(spec *ebpf.CollectionSpec, o chain.Options) error {
	cells := places(o) + min(runCells, o.MaxObjects)
	if cells > math.MaxUint32 {
		return fmt.Errorf("%d objects are more than a table has: choose fewer", o.MaxObjects)
	}
	if m := spec.Maps["nq_objects"]; m != nil {
		m.MaxEntries, m.ValueSize = uint32(cells), uint32(objectEntryBytes(o))
	}
	if m := spec.Maps["nq_reaches"]; m != nil {
		m.MaxEntries = uint32(places(o) / lineReaches)
	}
	return nil
}

// mapObjects maps the table into memory.
func mapObjects(o *objects) (*objectTable, error) {
	t := &objectTable{
		cells: int(o.Objects.MaxEntries()), words: int(o.Objects.ValueSize()) / 8, giveUp: o.GiveUp,
	}
	var err error
	if t.memory, err = mapArray[uint64](o.Objects, t.cells*t.words); err != nil {
		return nil, fmt.Errorf("mapping the table of objects: %w", err)
	}
	if t.reach, err = mapArray[uint64](o.Reaches, int(o.Reaches.MaxEntries()*o.Reaches.ValueSize())/8); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping the reaches of places: %w", err), unmapArray(t.memory))
	}
	return t, nil
}

func (t *objectTable) close() error { return errors.Join(unmapArray(t.memory), unmapArray(t.reach)) }

func (t *objectTable) cell(i int) []uint64 { return t.memory[i*t.words:][:t.words] }

// bytesOf are the bytes of words in memory.
func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// shape returns what a cell holds.
func shapeOf(cell []uint64) uint16 {
	first := [1]uint64{atomic.LoadUint64(&cell[0])}
	return native.Uint16(bytesOf(first[:])[4:])
}

// headerTries is how often a header is copied that packets change meanwhile.
const headerTries = 4

// header copies the header of a cell. whole is false if packets changed it at each try; its key is right then too, if the
// cell was the same object's all the time.
func header(cell []uint64) (h nqObject, whole bool) {
	var words [objectBytes / 8]uint64
	for range headerTries {
		for i := range words {
			words[i] = atomic.LoadUint64(&cell[i])
		}
		h = *(*nqObject)(unsafe.Pointer(&words))
		if h.Seq&1 == 0 && atomic.LoadUint32((*uint32)(unsafe.Pointer(&cell[0]))) == h.Seq {
			return h, true
		}
	}
	return h, false
}

// scan calls visit with the headers of objects in some cells.
func (t *objectTable) scan(from, to int, visit func(h *nqObject, whole bool)) {
	for i := from; i < to; i++ {
		cell := t.cell(i)
		if shapeOf(cell)&shapeUsed == 0 {
			continue
		}
		if h, whole := header(cell); h.Shape&shapeUsed != 0 {
			visit(&h, whole)
		}
	}
}

// blank makes objects that were never written of those of these keys. No packet may look at them.
func (t *objectTable) blank(keys []tableKey) error { return t.giveUpAll(keys, recordWhole) }

// remove removes the objects that there are of these keys. No packet may look at them.
func (t *objectTable) remove(keys []tableKey) error { return t.giveUpAll(keys, recordAbsent) }

func (t *objectTable) giveUpAll(keys []tableKey, state uint8) error {
	return importAll(t.giveUp, objectRecordBytes, len(keys), func(i int, record []byte) error {
		_, err := binary.Encode(record, native, nqRecord{Key: keys[i], State: state})
		return err
	})
}

// clear removes all objects, while no packet is under way.
func (t *objectTable) clear() {
	clear(t.memory)
	clear(t.reach)
}

// setUses sets how often an object was read and written, while no packet is under way.
func (t *objectTable) setUses(k wire.Key, reads, writes uint64) {
	for i := range t.cells {
		h := (*nqObject)(unsafe.Pointer(&t.cell(i)[0]))
		if h.Shape&shapeUsed != 0 && h.Key == keyBytes(k) {
			h.Reads, h.Writes = uint32(reads), uint32(writes)
		}
	}
}

// all returns all objects, while no packet is under way.
func (t *objectTable) all() map[wire.Key]chain.Object {
	all := make(map[wire.Key]chain.Object)
	for i := range t.cells {
		cell := t.cell(i)
		if shapeOf(cell)&shapeUsed == 0 {
			continue
		}
		h, _ := header(cell)
		all[keyOf(h.Key[:])] = h.object(bytesOf(cell)[objectBytes:])
	}
	return all
}
