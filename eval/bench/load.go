package bench

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:embed loadgen.o
var object []byte

// Sizes that the kernel program defines too.
const (
	maxCPUs       = 16
	templateWords = 18
)

// sessionsPerCPU is the number of sessions that writes from one CPU are spread over, a power of two.
const sessionsPerCPU = 1024

// load is the generator and the counter, loaded for one kind of request.
type load struct {
	collection *ebpf.Collection
	frame      []byte // template for the generator
	bundle     bundle // requests per frame
	from       *port
	links      []link.Link

	beside func(elapsed time.Duration) error // called between sends; may be nil
}

// newLoad loads the programs for requests on the given way and counts the answers at the given
// ports.
func newLoad(r *request, w way, counted ...*port) (*load, error) {
	l, err := loadPrograms(r, w)
	if err != nil {
		return nil, err
	}
	if err := l.attachAll(counted); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openToXDP lets sockets behind a port receive packets sent by XDP programs at the other end of its
// link.
func openToXDP(p *port) (link.Link, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the generator's object: %w", err)
	}
	program, err := ebpf.NewProgram(spec.Programs["pass"])
	if err != nil {
		return nil, fmt.Errorf("load an XDP program: %w", err)
	}
	defer program.Close()
	return attach(program, p, link.XDPDriverMode)
}

// loadPrograms loads the programs without attaching them.
func loadPrograms(r *request, w way) (*load, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the generator's object: %w", err)
	}
	read, put := r.dialect.frames(r, w)
	l := &load{frame: r.longest(read, put), bundle: r.bundle, from: w.from}
	if err := setConstants(spec, r, read, put, len(l.frame)); err != nil {
		return nil, err
	}
	spec.Maps["keys"].MaxEntries = uint32(len(r.keys))
	l.collection, err = ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the generator: %w", err)
	}
	if err := l.fillKeys(r); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func setConstants(spec *ebpf.CollectionSpec, r *request, read, put []byte, given int) error {
	constants := map[string]any{
		"templates":      [2][templateWords]uint64{template(read), template(put)},
		"value_bytes":    uint32(r.valueBytes),
		"given_bytes":    uint32(given),
		"key_count":      uint32(len(r.keys)),
		"sessions_shift": uint32(bits.TrailingZeros(sessionsPerCPU)),
		"session_base":   rand.Uint64()&^(1<<40-1) | 1,
		"version_max":    r.versionMax,
		"tag":            rand.Uint32(),
		"client_port":    bits.ReverseBytes16(r.dialect.clientPort()),
		"write_share":    r.shareOfWrites(),
		"only_sizes":     r.onlySizes,
		"dialect":        r.dialect.number(),
		"wide_seq":       r.dialect.wide,
		"lists":          r.dialect.addresses(),
		"list_counts":    [2]uint32{uint32(len(r.dialect.lists[0])), uint32(len(r.dialect.lists[1]))},
		"timing":         r.timing,
		"slots":          uint32(r.bundle.slots),
		"slot_bytes":     uint32(r.bundle.slotBytes),
	}
	return set(spec, constants)
}

// set assigns values to constants of an object.
func set(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		variable := spec.Variables[name]
		if variable == nil {
			return fmt.Errorf("the generator's object has no constant %s: build again", name)
		}
		if err := variable.Set(value); err != nil {
			return fmt.Errorf("set the generator's %s: %w", name, err)
		}
	}
	return nil
}

// template returns the start of a frame as words in host byte order.
func template(packet []byte) (words [templateWords]uint64) {
	start := make([]byte, templateWords*8)
	copy(start, packet)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(start[8*i:])
	}
	return words
}

// fillKeys stores the keys in request order.
func (l *load) fillKeys(r *request) error {
	indexes := make([]uint32, len(r.keys))
	values := make([][2]uint64, len(r.keys))
	for i, k := range r.keys {
		indexes[i] = uint32(i)
		values[i] = [2]uint64{hostWord(k.Hi), hostWord(k.Lo)}
	}
	if _, err := l.collection.Maps["keys"].BatchUpdate(indexes, values, nil); err != nil {
		return fmt.Errorf("fill the generator's keys: %w", err)
	}
	return nil
}

func (l *load) attachAll(counted []*port) error {
	for _, p := range counted {
		if err := l.attach("count", p); err != nil {
			return err
		}
	}
	return l.park()
}

// park attaches the generator to an idle interface, which keeps it in the kernel's XDP dispatcher.
// Otherwise every BPF_PROG_RUN would insert and remove it and wait for all CPUs each time.
func (l *load) park() error {
	idle, err := l.from.host.idlePort()
	if err != nil {
		return err
	}
	return l.attach("generate", idle)
}

// attachSwap attaches the swap program to a node's port.
func (l *load) attachSwap(p *port, generic bool) error {
	mode := link.XDPDriverMode
	if generic {
		mode = link.XDPGenericMode
	}
	attached, err := attach(l.collection.Programs["swap"], p, mode)
	if err == nil {
		l.links = append(l.links, attached)
	}
	return err
}

func (l *load) attach(program string, p *port) error {
	attached, err := attach(l.collection.Programs[program], p, link.XDPDriverMode)
	if err != nil {
		return err
	}
	l.links = append(l.links, attached)
	return nil
}

// attach puts an XDP program on a port.
func attach(program *ebpf.Program, p *port, mode link.XDPAttachFlags) (link.Link, error) {
	var attached link.Link
	err := p.host.do(func() error {
		var err error
		attached, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: p.index, Flags: mode})
		if err != nil {
			return fmt.Errorf("attach an XDP program to %s: %w", p.name, err)
		}
		return nil
	})
	return attached, err
}

// sendBatch is the number of frames that the kernel sends before the other side may work, unless a
// pace sets another.
const sendBatch = 64

// send sends n requests in batches of frames. With bundles it rounds n down to full bundles, but
// sends at least one. The calling thread must be in the namespace of the load's port.
func (l *load) send(n, batch int) error {
	_, err := l.collection.Programs["generate"].Run(&ebpf.RunOptions{
		Data:      l.frame,
		Repeat:    uint32(max(n/l.bundle.requests(), 1)),
		BatchSize: uint32(batch),
		Flags:     unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		Context:   xdpContext{DataEnd: uint32(len(l.frame)), IngressIfindex: uint32(l.from.index)},
	})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("this kernel cannot send live frames from BPF_PROG_RUN; use Linux 5.18 or later: %w", err)
	case err != nil:
		return fmt.Errorf("generate load: %w", err)
	}
	return nil
}

// xdpContext is struct xdp_md.
type xdpContext struct {
	Data, DataEnd, DataMeta                     uint32
	IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

func (l *load) close() {
	for _, attached := range l.links {
		attached.Close()
	}
	l.collection.Close()
}
