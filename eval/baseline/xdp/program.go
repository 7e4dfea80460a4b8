package xdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// program is one node's program in the kernel.
type program struct {
	collection *ebpf.Collection
	links      []link.Link
}

// load puts a compiled object into the kernel, with its constants and the tables' sizes.
func load(object []byte, constants map[string]any, resize func(maps map[string]*ebpf.MapSpec)) (*program, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("BPF needs privileges: run as root: %w", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the XDP program in this binary: %w", err)
	}
	for name, value := range constants {
		v, ok := spec.Variables[name]
		if !ok {
			return nil, fmt.Errorf("the XDP program in this binary has no constant %s: build again", name)
		}
		if err := v.Set(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	resize(spec.Maps)
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the XDP program: %w", err)
	}
	return &program{collection: collection}, nil
}

// commonConstants are those of eval/bpf/baseline/baseline.h.
func commonConstants(self netip.Addr, port uint16) map[string]any {
	weak := uint8(0)
	if runtime.GOARCH != "amd64" {
		weak = 1
	}
	return map[string]any{"nq_self_addr": self.As4(), "nq_self_port": be16(port), "nq_weak_memory": weak}
}

// be16 is a port as the program compares it.
func be16(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

// attach puts the program on ports of the calling thread's namespace and tells it to send by them.
// The kernel has to look up ways on behalf of the loopback device.
func (p *program) attach(ingress string, out xdp.Outputs, names []string) error {
	if len(names) == 0 {
		return errors.New("a node has at least one port: name them")
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/lo/forwarding", []byte("1"), 0); err != nil {
		return fmt.Errorf("turn on IPv4 forwarding for lo: %w", err)
	}
	if err := out.Fill(names); err != nil {
		return err
	}
	for _, name := range names {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
		attached, err := link.AttachXDP(link.XDPOptions{
			Program: p.collection.Programs[ingress], Interface: i.Index, Flags: link.XDPDriverMode,
		})
		if err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
		p.links = append(p.links, attached)
	}
	return nil
}

// counts sums the counters of all CPUs.
func (p *program) counts(sums []uint64) error {
	for i := range sums {
		var cpus []uint64
		if err := p.collection.Maps["bl_counts"].Lookup(uint32(i), &cpus); err != nil {
			return fmt.Errorf("read the counters: %w", err)
		}
		sums[i] = 0
		for _, n := range cpus {
			sums[i] += n
		}
	}
	return nil
}

// Close takes the node off its ports.
func (p *program) Close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.collection.Close()
	return errors.Join(errs...)
}

// rows makes entries of a table, whose length is known at run time only, as the kernel takes many at once.
func rows(count, bytes int, row func(i int) []byte) any {
	all := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(bytes, reflect.TypeFor[byte]())), count, count)
	for i := range count {
		reflect.Copy(all.Index(i), reflect.ValueOf(row(i)))
	}
	return all.Interface()
}
