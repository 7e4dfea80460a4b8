package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	// batchBytes is the most that one run of a program takes: a page, less the kernel's own part of a packet.
	batchBytes  = 3072
	batchHeader = 16 // of nqBatch

	objectRecordBytes  = 64 // of nqRecord
	sessionRecordBytes = 64 // of nqSessionRecord
)

// Results of the programs for a record: NQ_RECORD_*.
const (
	recordAbsent = iota
	recordWhole
	recordContended
	recordFull

	recordStateBits = 2
)

// batch is the input of a program of bpf/node/copy.h in place of a packet: records of one length.
type batch struct {
	stride int
	count  int
	data   []byte
}

func newBatch(stride int) *batch {
	b := &batch{stride: stride, data: make([]byte, batchHeader, batchBytes)}
	native.PutUint32(b.data[4:], uint32(stride))
	return b
}

func (b *batch) reset() { b.count, b.data = 0, b.data[:batchHeader] }

func (b *batch) full() bool { return len(b.data)+b.stride > batchBytes }

// add appends a record of zeros and returns it.
func (b *batch) add() []byte {
	b.count++
	at := len(b.data)
	b.data = b.data[:at+b.stride]
	clear(b.data[at:])
	return b.data[at:]
}

func (b *batch) record(i int) []byte { return b.data[batchHeader+i*b.stride:][:b.stride] }

// run has a program work on the batch, and returns how many records it did and its result for the next one.
func (b *batch) run(program *ebpf.Program) (done, state int, err error) {
	native.PutUint32(b.data, uint32(b.count))
	run := ebpf.RunOptions{Data: b.data, DataOut: b.data[:len(b.data):len(b.data)]}
	result, err := program.Run(&run)
	if err != nil {
		return 0, 0, fmt.Errorf("running a program on a table: %w", err)
	}
	b.data = b.data[:len(run.DataOut)]
	return int(result >> recordStateBits), int(result & (1<<recordStateBits - 1)), nil
}

// recordBytes is the length of an object's record with its value.
func recordBytes(o chain.Options) int { return objectRecordBytes + (o.CellBytes+7)/8*8 }

// decodeRecord reads an object's record.
func decodeRecord(record []byte) (state int, o chain.Object, err error) {
	var h nqRecord
	if _, err := binary.Decode(record, native, &h); err != nil {
		return 0, o, err
	}
	o = chain.Object{
		Version: h.Version, Committed: h.Committed, Epoch: h.Epoch, Tombstone: h.Tombstone != 0,
		Reads: h.Reads, Writes: h.Writes,
	}
	o.Value = append(o.Value, record[objectRecordBytes:][:h.ValueBytes]...)
	return int(h.State), o, nil
}

func encodeRecord(record []byte, k wire.Key, o *chain.Object) error {
	h := nqRecord{
		Key: keyBytes(k), Version: o.Version, Committed: o.Committed, Epoch: o.Epoch,
		ValueSum: valueSum(o.Value), ValueBytes: uint16(len(o.Value)), Tombstone: flag(o.Tombstone),
	}
	if _, err := binary.Encode(record, native, &h); err != nil {
		return err
	}
	copy(record[objectRecordBytes:], o.Value)
	return nil
}

// A copy that writers disturbed is tried again: at once at first, and then after pauses, for a hypervisor may take the CPU
// from a program that has an entry locked.
const (
	copyTries  = 1000
	copyPauses = 1000
	copyPause  = time.Millisecond
)

// tries counts the attempts to copy something.
type tries int

// again reports whether to try once more, after a pause if there were many attempts.
func (n *tries) again() bool {
	if *n++; *n > copyTries {
		time.Sleep(copyPause)
	}
	return *n <= copyTries+copyPauses
}

// export visits copies of the objects that are there of those named.
func (o *objects) export(keys []wire.Key, recordBytes int, visit func(wire.Key, chain.Object) error) error {
	b := newBatch(recordBytes)
	for len(keys) > 0 {
		b.reset()
		n := 0
		for ; n < len(keys) && !b.full(); n++ {
			k := keyBytes(keys[n])
			copy(b.add(), k[:])
		}
		contended, err := o.exportBatch(b, keys[:n], visit)
		if err != nil {
			return err
		}
		for _, k := range contended {
			object, found, err := o.object(k, recordBytes)
			if err == nil && found {
				err = visit(k, object)
			}
			if err != nil {
				return err
			}
		}
		keys = keys[n:]
	}
	return nil
}

// exportBatch visits the objects of one batch, and returns the keys of those that writers disturbed.
func (o *objects) exportBatch(b *batch, keys []wire.Key, visit func(wire.Key, chain.Object) error) (contended []wire.Key, err error) {
	done, _, err := b.run(o.Export)
	if err != nil {
		return nil, err
	}
	if done != len(keys) {
		return nil, fmt.Errorf("the program read %d of %d objects", done, len(keys))
	}
	for i, k := range keys {
		state, object, err := decodeRecord(b.record(i))
		if err != nil {
			return nil, err
		}
		switch state {
		case recordWhole:
			if err := visit(k, object); err != nil {
				return nil, err
			}
		case recordContended:
			contended = append(contended, k)
		}
	}
	return contended, nil
}

// object copies one object.
func (o *objects) object(key wire.Key, recordBytes int) (object chain.Object, found bool, err error) {
	b := newBatch(recordBytes)
	for n := tries(0); n.again(); {
		b.reset()
		k := keyBytes(key)
		copy(b.add(), k[:])
		contended, err := o.exportBatch(b, []wire.Key{key}, func(_ wire.Key, whole chain.Object) error {
			object, found = whole, true
			return nil
		})
		if err != nil || len(contended) == 0 {
			return object, found, err
		}
	}
	return object, false, fmt.Errorf("object %v is written faster than it can be read", key)
}

// importAll applies records, which put writes, until all are done.
func importAll(program *ebpf.Program, stride, count int, put func(i int, record []byte) error) error {
	b := newBatch(stride)
	n := tries(0)
	for next := 0; next < count; {
		b.reset()
		for i := next; i < count && !b.full(); i++ {
			if err := put(i, b.add()); err != nil {
				return err
			}
		}
		want := b.count
		done, state, err := b.run(program)
		if err != nil {
			return err
		}
		next += done
		if done > 0 {
			n = 0
		}
		switch {
		case done == want:
		case state == recordFull:
			return dataplane.ErrFull
		case state != recordContended || !n.again():
			return errors.New("the program refuses the record")
		}
	}
	return nil
}

func (o *objects) importObjects(objects []dataplane.KeyedObject, options chain.Options) error {
	for i := range objects {
		if n := len(objects[i].Object.Value); n > options.CellBytes {
			return fmt.Errorf("object %v has %d bytes, this node's cells have %d", objects[i].Key, n, options.CellBytes)
		}
	}
	err := importAll(o.Import, recordBytes(options), len(objects), func(i int, record []byte) error {
		return encodeRecord(record, objects[i].Key, &objects[i].Object)
	})
	if err != nil {
		return fmt.Errorf("taking over objects: %w", err)
	}
	return nil
}

func (o *objects) importSessions(sessions []dataplane.KeyedSession) error {
	err := importAll(o.ImportSessions, sessionRecordBytes, len(sessions), func(i int, record []byte) error {
		k := sessions[i].Key
		_, err := binary.Encode(record, native, nqSessionRecord{Key: sessionKeyOf(k), Entry: sessionOf(k, sessions[i].Session)})
		return err
	})
	if err != nil {
		return fmt.Errorf("taking over sessions: %w", err)
	}
	return nil
}
