package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/rlimit"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Options say which node to be and where to attach.
type Options struct {
	Node  netip.AddrPort // address and port of the node; the address must be one of the machine's
	Ports []string       // interfaces; none: all Ethernet interfaces that are up
	Chain chain.Options
	Pin   string // directory below the BPF file system; empty: the data plane ends with the process
	Mode  Mode   // empty: Auto

	// Transit are networks of nodes whose messages the program routes, past the kernel's filters, where this node stands
	// between them; none: the kernel routes, if it is a router. At most [MaxTransit].
	Transit []netip.Prefix

	// Pods is a second address that the program answers at, on the ports of pods above all; not valid: none. Answers come
	// from the node's own address. See [Plane.AttachPod].
	Pods netip.Addr
}

// Plane is the data plane in the kernel. It implements [dataplane.Plane].
type Plane struct {
	info   atomic.Pointer[dataplane.Info]
	node   netip.AddrPort
	chain  chain.Options
	wanted Mode
	tables
	constants constants           // of the loaded programs; guarded by attaching
	names     []string            // of ports, as the user named them; none: all interfaces that can be ports
	ports     []port              // guarded by attaching
	excluded  map[int]exclusion   // interfaces that were tried in vain, by index; guarded by attaching
	left      map[string]string   // interfaces that are no ports, and why, as logged; guarded by attaching
	unfilled  bool                // the tables of the program lack a change of ports; guarded by attaching
	trouble   string              // of ports, as in dataplane.Info; guarded by attaching
	lo        attachment          // of nq_grow to the loopback device; guarded by attaching
	pods      map[string]*podPort // by name of the interface; guarded by attaching
	attaching sync.Mutex          // held while programs of ports change
	local     *localServer
	running   sync.RWMutex // read-held while local runs the program
	pin       string
	socket    *net.UDPConn
	outlet    *outlet
	punts     *puntReader
	contended *contendedReader

	peersWithin time.Duration // [peersWithin], but in tests
}

var _ dataplane.Plane = (*Plane)(nil)

// Open starts the node's data plane, or takes over the one pinned by a predecessor, which never stops answering
// meanwhile. On error nothing is left behind that was not there before.
func Open(o Options) (*Plane, error) {
	if err := o.Chain.Validate(); err != nil {
		return nil, err
	}
	if !o.Node.Addr().Is4() {
		return nil, fmt.Errorf("%v: the XDP plane speaks IPv4 only", o.Node)
	}
	if err := checkTransit(o.Transit); err != nil {
		return nil, err
	}
	if err := checkPods(o.Node, o.Pods); err != nil {
		return nil, err
	}
	switch o.Mode {
	case "":
		o.Mode = Auto
	case Auto, Native, Generic:
	default:
		return nil, fmt.Errorf("mode %q: want %s, %s or %s", o.Mode, Auto, Native, Generic)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("BPF needs privileges: run as root, or use --plane soft: %w", err)
	}
	if err := checkClock(); err != nil {
		return nil, err
	}
	if len(o.Ports) > maxPorts {
		return nil, fmt.Errorf("a node has at most %d ports, not %d", maxPorts, len(o.Ports))
	}
	p := &Plane{names: o.Ports, excluded: make(map[int]exclusion), pods: make(map[string]*podPort), pin: o.Pin, node: o.Node,
		chain: o.Chain, wanted: o.Mode, peersWithin: peersWithin}
	p.unquiet = true // the last action of a predecessor is unknown
	wrong, err := p.findPorts(o)
	if err != nil {
		return nil, err
	}
	fresh := o.Pin != "" && !Pinned(o.Pin)
	if fresh { // left by a start that was killed before it answered anything
		if err := Remove(o.Pin); err != nil {
			return nil, err
		}
	}
	if err := p.start(o, wrong); err != nil {
		p.Close()
		if fresh {
			err = errors.Join(err, Remove(o.Pin))
		}
		return nil, err
	}
	return p, nil
}

// start opens the data plane. wrong are attachments that stand in the way of ports.
func (p *Plane) start(o Options, wrong []portAttachment) error {
	var err error
	p.socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(o.Node))
	if err != nil {
		return fmt.Errorf("%v is taken or not an address of this machine: stop the other node, or choose another --addr: %w", o.Node, err)
	}
	if err := p.load(&o); err != nil {
		return err
	}
	if err := p.open(o.Chain, p.waitForPackets); err != nil {
		return err
	}
	if err := fillGroups(p.objects, p.ports); err != nil {
		return fmt.Errorf("preparing ACK multicast: %w", err)
	}
	if err := p.openOutlet(o.Chain.Tags); err != nil {
		return err
	}
	if p.punts, err = readPunts(p.objects.Punts, p.outlet); err != nil {
		return err
	}
	if p.contended, err = readContended(p.objects.Contended); err != nil {
		return err
	}
	if err := enableForwarding(loopback); err != nil {
		return err
	}
	if err := detachPinned(o.Pin, wrong); err != nil {
		return err
	}
	mode, why, err := attachFitting(p.ports, p.objects, o.Mode, o.Pin)
	if err != nil {
		return err
	}
	if err := p.attachLoopback(); err != nil {
		return err
	}
	if o.Pin != "" {
		if err := detachDropped(p.ports, o.Pin); err != nil {
			return err
		}
		if !o.Pods.IsValid() {
			if err := p.detachPods(); err != nil {
				return err
			}
		}
	}
	p.setInfo(mode, why)
	p.local = serveLocal(p)
	return nil
}

// load puts the programs and tables into the kernel, on top of those that are pinned.
func (p *Plane) load(o *Options) (err error) {
	if o.Pin != "" {
		if err := makePinDirectory(o.Pin); err != nil {
			return err
		}
		if err := identityOf(o.Node, o.Chain).compare(o.Pin); err != nil {
			return err
		}
	}
	c := constantsOf(o.Node, o.Chain)
	c.transit(o.Transit)
	c.pods(o.Pods)
	if o.Pin != "" {
		if c["nq_mark"], c["nq_secret"], err = keepRandom(o.Pin); err != nil {
			return err
		}
	}
	p.constants = c
	if p.objects, err = load(o.Chain, c, o.Pin, 0); err != nil {
		return err
	}
	if o.Pin != "" {
		if err := identityOf(o.Node, o.Chain).pin(o.Pin); err != nil {
			return err
		}
	}
	return nil
}

// Close ends this process's part. With pins the data plane goes on answering; without, it ends.
func (p *Plane) Close() error {
	var errs []error
	if p.punts != nil {
		errs = append(errs, p.punts.close())
	}
	if p.contended != nil {
		errs = append(errs, p.contended.close())
	}
	if p.socket != nil {
		errs = append(errs, p.socket.Close())
	}
	if p.local != nil {
		p.local.wait()
	}
	for _, port := range p.ports {
		errs = append(errs, port.xdp.close(), port.grow.close())
	}
	errs = append(errs, p.lo.close(), p.closePods())
	errs = append(errs, p.tables.close())
	return errors.Join(errs...)
}

// Info implements [dataplane.Plane].
func (p *Plane) Info() dataplane.Info { return *p.info.Load() }

// Grant implements [dataplane.Plane].
func (p *Plane) Grant(shard uint16, d time.Duration) error {
	if err := p.shards.check(shard); err != nil {
		return err
	}
	p.shards.grant(shard, dataplane.LeaseUntil(p.Clock(), d))
	return nil
}

// Clock implements [dataplane.Plane].
func (p *Plane) Clock() uint64 { return dataplane.BootTime() }

// Send implements [dataplane.Plane].
func (p *Plane) Send(s chain.Send) error {
	return p.outlet.send(s.Message.Append(make([]byte, 0, wire.MaxDatagramBytes)), s.To)
}
