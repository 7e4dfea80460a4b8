package soft

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Plane is a running node. It satisfies [dataplane.Plane].
type Plane struct {
	socket  *net.UDPConn
	addr    netip.AddrPort
	options chain.Options
	clock   func() uint64
	readers sync.WaitGroup

	keys atomic.Pointer[wire.Keyring]
	tags atomic.Uint32 // a [wire.Tags]; changed with mu held

	mu         sync.Mutex // guards the rest
	node       *chain.Node
	dirty      map[wire.Key]refusal // keys of the node's objects that are not clean
	unroutable uint64               // messages that the socket refused to send
	refused    chain.Counters       // messages that were not given to the node
	clients    chain.Credits        // of those whose rate is limited

	contended chan wire.Key
}

var _ dataplane.Plane = (*Plane)(nil)

// maxReaders bounds the goroutines that receive: the node itself works on one message at a time, only the system
// calls around it run side by side.
const maxReaders = 4

// Listen binds a node to an IPv4 address and starts to answer there; port 0 lets the kernel choose one. The node
// serves no shard until it is configured.
func Listen(addr netip.AddrPort, o chain.Options) (*Plane, error) {
	return ListenWith(addr, o, min(runtime.GOMAXPROCS(0), maxReaders), dataplane.BootTime)
}

// ListenWith is [Listen] with a number of readers and a clock for leases. With one reader, messages are handled one
// after the other.
func ListenWith(addr netip.AddrPort, o chain.Options, readers int, clock func() uint64) (*Plane, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if !addr.Addr().Is4() || addr.Addr().IsUnspecified() || addr.Addr().IsMulticast() {
		return nil, fmt.Errorf("%v is no address for a node: its chain knows it by one IPv4 address of this machine", addr)
	}
	config := net.ListenConfig{Control: setTTL}
	packets, err := config.ListenPacket(context.Background(), "udp4", addr.String())
	if err != nil {
		return nil, explain(addr, err)
	}
	socket := packets.(*net.UDPConn)
	// The kernel grants at most its limit; less only means that bursts are lost sooner.
	_ = socket.SetReadBuffer(socketBytes)
	_ = socket.SetWriteBuffer(socketBytes)
	p := &Plane{
		socket:    socket,
		addr:      socket.LocalAddr().(*net.UDPAddr).AddrPort(),
		options:   o,
		clock:     clock,
		node:      chain.New(o),
		dirty:     make(map[wire.Key]refusal),
		refused:   make(chain.Counters),
		contended: make(chan wire.Key, dataplane.MaxContended),
	}
	p.tags.Store(uint32(o.Tags))
	for range readers {
		p.readers.Go(p.serve)
	}
	return p, nil
}

// Addr is where the node listens, with the port that the kernel chose if 0 was asked for.
func (p *Plane) Addr() netip.AddrPort { return p.addr }

// Info describes the plane.
func (p *Plane) Info() dataplane.Info {
	return dataplane.Info{Plane: "soft", Mode: "sockets", Addr: p.addr, Options: p.options, Clones: !p.options.Relay}
}

// ConfigureAll implements [dataplane.Plane].
func (p *Plane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.ConfigureAll(configs)
}

// Config returns the configuration of a shard.
func (p *Plane) Config(shard uint16) (chain.ShardConfig, error) {
	if int(shard) >= p.options.Shards {
		return chain.ShardConfig{}, fmt.Errorf("shard %d: there are %d", shard, p.options.Shards)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Config(shard), nil
}

// Grant lets the shard be read here for d from now.
func (p *Plane) Grant(shard uint16, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Grant(shard, dataplane.LeaseUntil(p.clock(), d))
}

// Clock returns the time that leases are measured on.
func (p *Plane) Clock() uint64 { return p.clock() }

// Renew sets the end of the lease of every shard that is readable here.
func (p *Plane) Renew(until uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node.Renew(until)
	return nil
}

// Loads returns the load of every shard.
func (p *Plane) Loads() ([]dataplane.ShardLoad, error) {
	loads := make([]dataplane.ShardLoad, p.options.Shards)
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard := range loads {
		loads[shard] = dataplane.ShardLoad(p.node.Load(uint16(shard)))
	}
	return loads, nil
}

// Counters returns the outcomes of the messages received so far. A message whose answer the socket refused counts
// twice: by its outcome at the node, and as unroutable.
func (p *Plane) Counters() (chain.Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counters := maps.Clone(p.node.Counters())
	for counter, n := range p.refused {
		counters[counter] += n
	}
	if p.unroutable > 0 {
		counters[chain.Counter{Outcome: wire.OutcomeUnroutable}] += p.unroutable
	}
	return counters, nil
}

// Object returns a copy of one object.
func (p *Plane) Object(key wire.Key) (chain.Object, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.node.Objects()[key]
	if object == nil {
		return chain.Object{}, false, nil
	}
	return copyOf(object), true, nil
}

// SetHeart implements [dataplane.Plane].
func (p *Plane) SetHeart(h chain.Heart) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node.SetHeart(h)
	return nil
}

// Granted returns the lease that heartbeats granted.
func (p *Plane) Granted() (chain.Granted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Granted(), nil
}

// Send sends a message from the node's own address.
func (p *Plane) Send(s chain.Send) error {
	message, err := p.tag(s.Message.Append(nil), s.To)
	if err == nil {
		_, err = p.socket.WriteToUDPAddrPort(message, s.To)
	}
	if err != nil {
		return fmt.Errorf("%v to %v: %w", s.Message.Op, s.To, err)
	}
	return nil
}

// Close stops the node; its objects are lost.
func (p *Plane) Close() error {
	err := p.socket.Close()
	p.readers.Wait()
	return err
}

// Visit calls f with the node that the plane wraps, while no message is handled. Tests set a node up and look into it
// this way.
func (p *Plane) Visit(f func(*chain.Node) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.node)
}
