package xdp

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// BenchmarkMillion reports how long 1,000,000 objects of 128 bytes take to be put in, copied out, walked over and
// dropped.
func BenchmarkMillion(b *testing.B) {
	const count, shards = 1_000_000, 256
	o := testOptions(b)
	o.Pin = ""
	o.Chain = chain.Options{Shards: shards, CellBytes: 128, MaxObjects: count, MaxSessions: 8}
	onPlane(b, o, func(p *Plane) error {
		all := make([]uint16, shards)
		for i := range all {
			all[i] = uint16(i)
		}
		report := func(name string, start time.Duration) {
			b.ReportMetric((cpuTime() - start).Seconds(), name+"-cpu-s")
		}
		for range b.N {
			start := cpuTime()
			if err := p.Import(million(count), nil); err != nil {
				return err
			}
			report("import", start)
			start = cpuTime()
			dirty, err := p.Dirty(10)
			if err != nil || len(dirty) != 0 {
				return errors.Join(errors.New("objects are dirty"), err)
			}
			report("walk", start)
			start = cpuTime()
			seen := 0
			if err := exportCount(p, all, &seen); err != nil || seen < count {
				return errors.Join(errors.New("objects are missing"), err)
			}
			report("export", start)
			start = cpuTime()
			if err := exportCount(p, all[:1], new(int)); err != nil {
				return err
			}
			report("export-one-shard", start)
			start = cpuTime()
			if err := p.Drop(all); err != nil {
				return err
			}
			report("drop", start)
		}
		return nil
	})
}

// cpuTime returns the CPU time of the process so far. Unlike the clock, it does not depend on other load of the machine.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func exportCount(p *Plane, shards []uint16, seen *int) error {
	return p.Export(dataplane.Everything(shards), func(wire.Key, chain.Object) error { *seen++; return nil },
		func(chain.SessionKey, chain.Session) error { return nil })
}

func million(count int) []dataplane.KeyedObject {
	objects := make([]dataplane.KeyedObject, count)
	value := make([]byte, 128)
	for i := range objects {
		var name [8]byte
		binary.BigEndian.PutUint64(name[:], uint64(i))
		k, _ := wire.HashKey(name[:])
		objects[i] = dataplane.KeyedObject{Key: k, Object: chain.Object{Version: 1, Committed: 1, Value: value}}
	}
	return objects
}

// onFullPlane calls do with a plane that is full of objects without values.
func onFullPlane(t *testing.T, count int, do func(*Plane) error) {
	t.Helper()
	o := testOptions(t)
	o.Pin = ""
	o.Chain = chain.Options{Shards: 2, CellBytes: 16, MaxObjects: count, MaxSessions: 1}
	objects := million(count)
	for i := range objects {
		objects[i].Object.Value = nil
	}
	onPlane(t, o, func(p *Plane) error {
		if err := p.Import(objects, nil); err != nil {
			return err
		}
		return do(p)
	})
}

// TestWalkFindsNothing walks over more objects than the kernel looks at in one piece without output.
func TestWalkFindsNothing(t *testing.T) {
	const count = 1_050_000
	onFullPlane(t, count, func(p *Plane) error {
		usage, err := p.Usage()
		if usage.Objects != count {
			t.Errorf("%d objects are counted of %d", usage.Objects, count)
		}
		dirty, dirtyErr := p.Dirty(10)
		if len(dirty) != 0 {
			t.Errorf("%d objects are dirty", len(dirty))
		}
		return errors.Join(err, dirtyErr)
	})
}
