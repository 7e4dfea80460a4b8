package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/wire"
)

// nqNearbyRecord is the header of a read in an area; the value follows.
type nqNearbyRecord struct {
	Key        [16]byte
	Version    uint64
	Epoch      [4]byte
	ValueBytes uint16
	Answered   uint8
	Reserved   uint8
}

// nqNearbyRequest is the input of nq_nearby.
type nqNearbyRequest struct {
	Area  uint32
	Count uint32
}

const (
	nearbyReads       = 64 // records of an area
	nearbyRecordBytes = 32 // of nqNearbyRecord
	nearbyAreas       = 8  // reads that go on at the same time; more wait
)

// Nearby reads objects of a data plane that is pinned on this machine, without a packet, by rule R6. It runs a program of its own
// on the node's tables, so the node's agent takes no part in it, and need not run. A read that this program does not
// answer goes through the network. Its methods may be called from several goroutines.
type Nearby struct {
	program *ebpf.Program
	memory  []byte
	stride  int
	areas   chan uint32 // free ones
	pin     int         // the identity's file
	testNow *ebpf.Variable
	change  Change // of an [Offline]
}

// nearbyTables are the tables of a node that the program uses.
var nearbyTables = []string{"nq_live", "nq_heart", "nq_objects", "nq_reaches", "nq_loads"}

// readOnly opens a pin that this process may read, and need not be allowed to write.
var readOnly = &ebpf.LoadPinOptions{ReadOnly: true}

func newNearby() *Nearby { return &Nearby{areas: make(chan uint32, nearbyAreas), pin: -1} }

// OpenNearby prepares reads of the data plane that is pinned in a directory. It needs CAP_BPF and CAP_PERFMON, and the pins
// to be readable: as root, their owner, or with CAP_DAC_READ_SEARCH.
func OpenNearby(pin string) (_ *Nearby, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	n := newNearby()
	defer func() {
		if err != nil {
			_ = n.Close()
		}
	}()
	path := filepath.Join(pin, identityPin)
	n.pin, err = eintr.Value(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var id identity
	if id, err = readIdentity(pin); err != nil {
		return nil, err
	}
	if id.TableVersion != tableVersion {
		return nil, fmt.Errorf("%s: %w: its tables are of version %d, this program's of %d", pin, ErrStalePins,
			id.TableVersion, tableVersion)
	}
	return n, n.open(pin, &id)
}

// open opens the tables below a directory and loads the program on them.
func (n *Nearby) open(pin string, id *identity) error {
	tables := make(map[string]*ebpf.Map)
	for _, name := range nearbyTables {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pin, name), readOnly)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(pin, name), err)
		}
		defer m.Close() // the program keeps it
		tables[name] = m
	}
	s, err := kept[secret](pin, secretPin)
	if err != nil {
		return err
	}
	err = n.load(tables, int(id.CellBytes), constants{
		"nq_secret": s, "nq_places": tables["nq_reaches"].MaxEntries() * lineReaches,
		"nq_shard_mask": id.ShardMask, "nq_cell_bytes": id.CellBytes, "nq_weak_memory": weakMemory(),
		"nq_without": uint16(id.Without) | uint16(id.WithoutHigh)<<8,
	})
	if err != nil {
		return explainNearby(err, pin)
	}
	return nil
}

// load loads the program on a node's tables.
func (n *Nearby) load(tables map[string]*ebpf.Map, cell int, c constants) error {
	spec, err := readObject(netcraqObject)
	if err != nil {
		return fmt.Errorf("the XDP program in this binary: %w", err)
	}
	n.stride = nearbyStride(cell)
	areas := spec.Maps["nq_areas"]
	areas.MaxEntries, areas.ValueSize = nearbyAreas, uint32(n.areaBytes())
	for name, value := range c {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := n.change.apply(spec); err != nil {
		return err
	}
	for name, m := range tables {
		s := spec.Maps[name]
		s.MaxEntries, s.ValueSize, s.Flags = m.MaxEntries(), m.ValueSize(), m.Flags()
	}
	var out struct {
		Program *ebpf.Program  `ebpf:"nq_nearby"`
		Areas   *ebpf.Map      `ebpf:"nq_areas"`
		TestNow *ebpf.Variable `ebpf:"nq_test_now_ns"`
	}
	options := n.change.options()
	options.MapReplacements = tables
	if err := spec.LoadAndAssign(&out, &options); err != nil {
		return err
	}
	defer out.Areas.Close()
	n.program, n.testNow = out.Program, out.TestNow
	n.memory, err = unix.Mmap(out.Areas.FD(), 0, arrayBytes[byte](nearbyAreas*n.areaBytes()),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the areas of reads: %w", err)
	}
	for i := range uint32(nearbyAreas) {
		n.areas <- i
	}
	return nil
}

// nearbyStride is the distance of records whose values have at most so many bytes.
func nearbyStride(cell int) int { return nearbyRecordBytes + (cell+7)/8*8 }

// areaBytes is the length of an area.
func (n *Nearby) areaBytes() int { return nearbyReads * n.stride }

// Read reads keys in their order: each at one moment, after that of the key before it. It calls answer for those that the
// node may answer from a clean object; the value is valid during this call only.
func (n *Nearby) Read(keys []wire.Key, answer func(i int, version uint64, epoch uint32, value []byte)) error {
	area := <-n.areas
	defer func() { n.areas <- area }()
	records := n.memory[int(area)*n.areaBytes():][:n.areaBytes()]
	for first := 0; first < len(keys); first += nearbyReads {
		some := keys[first:min(first+nearbyReads, len(keys))]
		for i, key := range some {
			k := keyBytes(key)
			copy(records[i*n.stride:], k[:])
		}
		if err := n.run(nqNearbyRequest{Area: area, Count: uint32(len(some))}); err != nil {
			return err
		}
		for i := range some {
			r := (*nqNearbyRecord)(unsafe.Pointer(&records[i*n.stride]))
			if r.Answered != 0 {
				value := records[i*n.stride+nearbyRecordBytes:][:r.ValueBytes]
				answer(first+i, r.Version, binary.BigEndian.Uint32(r.Epoch[:]), value)
			}
		}
	}
	return nil
}

func (n *Nearby) run(request nqNearbyRequest) error {
	var in [unsafe.Sizeof(request)]byte
	native.PutUint32(in[0:], request.Area)
	native.PutUint32(in[4:], request.Count)
	result, err := n.program.Run(&ebpf.RunOptions{Context: in[:]})
	if err == nil && result != 0 {
		err = errors.New("the program finds no area for the results")
	}
	if err != nil {
		return fmt.Errorf("reading objects of a node on this machine: %w", err)
	}
	return nil
}

// Gone reports whether the data plane is no longer pinned where it was when it was opened.
func (n *Nearby) Gone() bool {
	var stat unix.Stat_t
	err := eintr.Retry(func() error { return unix.Fstat(n.pin, &stat) })
	return err != nil || stat.Nlink == 0
}

// Close frees what the reads need. No read may be under way.
func (n *Nearby) Close() error {
	var errs []error
	if n.pin >= 0 {
		errs = append(errs, unix.Close(n.pin))
	}
	if n.program != nil {
		errs = append(errs, n.program.Close())
	}
	if n.memory != nil {
		errs = append(errs, unix.Munmap(n.memory))
	}
	return errors.Join(errs...)
}

// endNearby ends reads of a data plane that is about to be removed: processes that opened it keep its tables. No packet
// arrives there any more.
func endNearby(pin string) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, "nq_live"), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending reads of %s: %w", pin, err)
	}
	defer m.Close()
	live, err := mapArray[byte](m, int(m.MaxEntries()*m.ValueSize()))
	if err != nil {
		return fmt.Errorf("ending reads of %s: %w", pin, err)
	}
	clear(live)
	return unmapArray(live)
}
