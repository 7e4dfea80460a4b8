package p4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	artefacts "github.com/netcraq/netcraq/p4"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/wire"
)

// EngineMegabytes is enough memory for the tables and registers of any program in p4.
const EngineMegabytes = 512

// Options describe a node on network interfaces.
type Options struct {
	Node  netip.AddrPort
	Ports []string // interfaces; none: all that are up, but for loopback
	Chain chain.Options
	// Dial returns a switch that another process runs, without state, with Ports in the order of its ports; nil: this
	// process runs an engine.
	Dial func() (Switch, error)
}

// start starts an engine or dials a switch.
func (o *Options) start(ports []string) (Switch, error) {
	if o.Dial != nil {
		return o.Dial()
	}
	sw, err := StartSWX(artefacts.Program, EngineMegabytes, ports...)
	if err != nil {
		return nil, err
	}
	return sw, nil
}

// Plane is a running node.
type Plane struct {
	*Node
	sw        Switch
	mode      string
	ports     []string
	sink      int // holds the node's port, so that the host answers nothing there
	raw       int // sends what the program has no way for
	ways      ways
	workers   sync.WaitGroup
	done      chan struct{}
	contended chan wire.Key

	unroutableMu sync.Mutex
	unroutable   uint64
}

var _ dataplane.Plane = (*Plane)(nil)

// Open starts a node; it serves no shard until it is configured.
func Open(o Options) (*Plane, error) {
	o.Chain.NoDigest, o.Chain.EarlySessions, o.Chain.ClientSessions = true, true, 0
	if err := CheckOptions(o.Chain); err != nil {
		return nil, err
	}
	ports := o.Ports
	if len(ports) == 0 {
		var err error
		if ports, err = allInterfaces(); err != nil {
			return nil, err
		}
	}
	p := &Plane{
		ports: ports, sink: -1, raw: -1, done: make(chan struct{}), contended: make(chan wire.Key, mostReported),
	}
	if err := p.open(o); err != nil {
		return nil, errors.Join(err, p.closeSockets())
	}
	return p, nil
}

func (p *Plane) open(o Options) (err error) {
	if p.sink, err = openSink(o.Node); err != nil {
		return err
	}
	if p.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return fmt.Errorf("a p4 node needs root: %w", err)
	}
	sw, err := o.start(p.ports)
	if err != nil {
		return err
	}
	p.sw, p.mode = sw, "swx"
	if o.Dial != nil {
		p.mode = "p4runtime"
	}
	if p.Node, err = NewNode(sw, o.Node, o.Chain); err != nil {
		return errors.Join(err, sw.Close())
	}
	if p.stepper != nil {
		p.mode = "p4packets"
	}
	p.ways = ways{node: p.Node, ports: p.ports}
	p.workers.Go(p.attend)
	p.workers.Go(p.follow)
	p.workers.Go(p.watchRefused)
	return nil
}

// allInterfaces lists the interfaces that are up, but for loopback.
func allInterfaces() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("a p4 node needs a network interface that is up")
	}
	return names, nil
}

// openSink holds the node's port: frames for it are the switch's, but the host sees them too, and would refuse them.
func openSink(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	filter := unix.SockFprog{Len: 1, Filter: &nothing[0]}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &filter)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("%v: %w", addr, err), unix.Close(fd))
	}
	return fd, nil
}

// attend handles the frames that the program sends to its CPU port.
func (p *Plane) attend() {
	for left := range p.sw.ForCPU() {
		if len(left.Frame) < PlatformBytes+frame.HeaderBytes {
			continue
		}
		switch left.Frame[offReason] {
		case cpuObject:
			port, again, err := p.wants(left.Frame)
			if err == nil {
				err = p.again(port, again)
			}
			if err != nil { // the sender tries again
				p.lose()
			}
		case cpuHeartbeat:
			// The time is that of its arrival: one that waited here would look as if the clock had stood still (H4).
			answer, err := p.beats(binary.BigEndian.Uint64(left.Frame), left.Frame[PlatformBytes:])
			if err == nil && answer != nil {
				err = p.sendIP(answer[frame.EthernetBytes:])
			}
			if err != nil {
				p.lose()
			}
		case cpuRoute:
			packet := left.Frame[PlatformBytes+frame.EthernetBytes:]
			p.ways.wanted(netip.AddrFrom4([4]byte(packet[16:20])))
			if err := p.sendIP(packet); err != nil {
				p.lose()
			}
		}
	}
}

func (p *Plane) lose() {
	p.unroutableMu.Lock()
	defer p.unroutableMu.Unlock()
	p.unroutable++
}

// sendIP gives an IPv4 packet to the host, which finds the way.
func (p *Plane) sendIP(packet []byte) error {
	return eintr.Retry(func() error {
		return unix.Sendto(p.raw, packet, 0, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])})
	})
}

// followEvery is how often the switch is told of ways that changed.
const followEvery = 200 * time.Millisecond

// follow keeps the switch's ways those of the host.
func (p *Plane) follow() {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			if err := p.ways.refresh(); err != nil && p.sw.Err() != nil {
				return
			}
		}
	}
}

// Gone is closed when the node's switch has ended and its objects are lost. Err returns the reason.
func (p *Plane) Gone() <-chan struct{} { return p.sw.Gone() }

// Err says why the switch is gone.
func (p *Plane) Err() error { return p.sw.Err() }

// Info describes the plane.
func (p *Plane) Info() dataplane.Info {
	return dataplane.Info{
		Plane: "p4", Mode: p.mode, Addr: p.self, Options: p.options, Clones: !p.options.Relay, NoTags: errNoTags.Error(),
	}
}

// Grant implements [dataplane.Plane].
func (p *Plane) Grant(shard uint16, d time.Duration) error {
	if d < 0 {
		d = 0
	}
	return p.GrantUntil(shard, dataplane.LeaseUntil(p.Clock(), d))
}

// Clock implements [dataplane.Plane].
func (p *Plane) Clock() uint64 { return dataplane.BootTime() }

// Counters implements [dataplane.Plane].
func (p *Plane) Counters() (chain.Counters, error) {
	counters, err := p.Node.Counters()
	p.unroutableMu.Lock()
	defer p.unroutableMu.Unlock()
	if p.unroutable > 0 {
		counters[chain.Counter{Outcome: wire.OutcomeUnroutable}] = p.unroutable
	}
	return counters, err
}

// Contended implements [dataplane.Plane]. The program counts refused writes, but does not record their keys: the keys are
// those of dirty objects.
func (p *Plane) Contended() <-chan wire.Key { return p.contended }

// SetKeys implements [dataplane.Plane]: the program has no tags, and so no use for keys.
func (p *Plane) SetKeys(*wire.Keyring) error { return nil }

// SetTags implements [dataplane.Plane].
func (p *Plane) SetTags(t wire.Tags) error {
	if t != wire.TagsOff {
		return errNoTags
	}
	return nil
}

// errNoTags says that the program has no tags: SipHash is beyond a switch.
var errNoTags = errors.New("a p4 node cannot check tags")

// Send implements [dataplane.Plane].
func (p *Plane) Send(s chain.Send) error {
	f := frame.Append(nil, &frame.Packet{From: p.self, To: s.To, Message: s.Message.Append(nil)})
	if err := p.sendIP(f[frame.EthernetBytes:]); err != nil {
		return fmt.Errorf("%v to %v: %w", s.Message.Op, s.To, err)
	}
	return nil
}

// Close ends the node and deletes its objects.
func (p *Plane) Close() error {
	close(p.done)
	err := p.sw.Close()
	p.workers.Wait()
	return errors.Join(err, p.closeSockets())
}

func (p *Plane) closeSockets() error {
	var err error
	for _, fd := range []int{p.sink, p.raw} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
