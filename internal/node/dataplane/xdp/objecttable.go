package xdp

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// objectTable is the table of objects as the agent uses it beside the programs: bpf/node/objects.h. Only this file
// knows how it is made.
type objectTable struct {
	entries *ebpf.Map // nq_objects
	fresh   *ebpf.Map // nq_blank
	bytes   int       // of an entry
	used    *uint64   // entries in use, in nq_usage
}

func newObjectTable(o *objects, options chain.Options, used *uint64) *objectTable {
	return &objectTable{entries: o.Objects, fresh: o.Blank, bytes: objectEntryBytes(options), used: used}
}

// objectEntryBytes is the size of an object with the room for its value.
func objectEntryBytes(o chain.Options) int { return objectBytes + cellBytes(o) }

// resizeObjects gives the tables of objects their sizes.
func resizeObjects(spec *ebpf.CollectionSpec, o chain.Options) {
	entry := uint32(objectEntryBytes(o))
	if m := spec.Maps["nq_objects"]; m != nil {
		m.MaxEntries, m.ValueSize = uint32(o.MaxObjects), entry
	}
	if m := spec.Maps["nq_blank"]; m != nil {
		m.ValueSize = entry
	}
}

// header is the header of an entry, which packets may change meanwhile.
func header(entry []byte) *nqObject { return (*nqObject)(unsafe.Pointer(unsafe.SliceData(entry))) }

// begin says how new objects begin: with another sequence number than before, and marked while objects are deleted.
func (t *objectTable) begin(reused bool) error {
	entry, err := encodeHeader(&nqObject{Seq: rand.Uint32() &^ 1, Reused: flag(reused)}, t.bytes)
	if err != nil {
		return err
	}
	return t.fresh.Put(uint32(0), entry)
}

// blank makes objects that were never written of those of these keys.
func (t *objectTable) blank(keys []tableKey) error {
	entry := make([]byte, t.bytes)
	for _, key := range keys {
		if err := t.entries.Put(key, entry); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the objects that there are of these keys. No packet may look at them.
func (t *objectTable) remove(keys []tableKey) error {
	for len(keys) > 0 {
		n, err := t.entries.BatchDelete(keys, nil)
		atomic.AddUint64(t.used, -uint64(n))
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			return err
		}
		keys = keys[n+1:] // a walk may meet an entry twice
	}
	return nil
}

// clear deletes all objects.
func (t *objectTable) clear() error { return deleteAll(t.entries) }

// put stores an object, while no packet is under way.
func (t *objectTable) put(k wire.Key, o chain.Object) error {
	entry, err := encodeObject(o, t.bytes)
	if err != nil {
		return err
	}
	return t.entries.Put(keyBytes(k), entry)
}

// all returns all objects, while no packet is under way.
func (t *objectTable) all() (map[wire.Key]chain.Object, error) {
	all := make(map[wire.Key]chain.Object)
	var key, entry []byte
	entries := t.entries.Iterate()
	for entries.Next(&key, &entry) {
		_, object, err := decodeObject(entry)
		if err != nil {
			return nil, err
		}
		all[keyOf(key)] = object
	}
	return all, entries.Err()
}
