package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
)

// Congestion limits the frames per second that every node of the line takes, as the software
// switches of the papers' testbed do, and sends background traffic through some nodes. The wires
// enforce the limit. The background traffic is real: the nodes route it. The papers do not say how
// they caused congestion.
type Congestion struct {
	Nodes          []int   // congested nodes
	FramesPerS     float64 // limit of every node; 0: defaultFramesPerS
	BackgroundLoad float64 // of a congested node's capacity, 0 to 1; 0: defaultBackgroundLoad
}

const (
	defaultFramesPerS     = 5000
	defaultBackgroundLoad = 0.75
)

func (c *Congestion) validate() error {
	if c.FramesPerS < 0 || c.BackgroundLoad < 0 || c.BackgroundLoad >= 1 {
		return wrongOption("congestion: want at least 0 frames/s and a background load from 0 to below 1, not %v and %v",
			c.FramesPerS, c.BackgroundLoad)
	}
	return nil
}

// withDefaults replaces zero fields by their defaults.
func (c Congestion) withDefaults() Congestion {
	if c.FramesPerS == 0 {
		c.FramesPerS = defaultFramesPerS
	}
	if c.BackgroundLoad == 0 {
		c.BackgroundLoad = defaultBackgroundLoad
	}
	return c
}

// The search for the highest load that a congested line sustains starts at one request per frame of
// a node's limit. It goes down in coarse steps to a sustained load, then halves the interval above
// that. The result is within 4.5 %, a 16th of an octave.
const (
	congestionTries   = 12             // loads; each is the previous one times coarseStep
	coarseStep        = 1 / math.Sqrt2 // half an octave
	congestionHalving = 3              // halvings of the last coarse interval
)

// sustainedLoss is the highest loss of a load that counts as sustained. Background traffic fills
// the queue too, so the queue occasionally drops a request.
const sustainedLoss = 0.02

// congested finds the highest load that the line sustains and measures it for d.
func (l *Line) congested(ctx context.Context, w Work, d time.Duration) (LineFigure, error) {
	c := w.Congestion.withDefaults()
	const trial = 150 * time.Millisecond
	sustains := func(offered float64) (bool, error) {
		f, err := l.underCongestion(ctx, c, offered, trial)
		return f.sustained(), err
	}
	highest, err := highestSustained(c.FramesPerS*float64(l.load.bundle.requests()), sustains)
	if err != nil {
		return LineFigure{}, err
	}
	var f LineFigure
	for range congestionTries { // a load sustained for a moment may be too high for longer
		if f, err = l.underCongestion(ctx, c, highest, d); err != nil || f.sustained() {
			return f, err
		}
		highest *= fineStep
	}
	return f, nil
}

// fineStep is the ratio of neighbouring loads after all halvings.
var fineStep = math.Pow(coarseStep, 1/math.Pow(2, congestionHalving))

// highestSustained returns the highest sustained load up to most. If no load is sustained, it
// returns the lowest it tried.
func highestSustained(most float64, sustains func(float64) (bool, error)) (float64, error) {
	offered := most
	for tries := 1; ; tries++ {
		ok, err := sustains(offered)
		if err != nil {
			return 0, err
		}
		if ok && offered < most {
			break
		}
		if ok || tries == congestionTries {
			return offered, nil
		}
		offered *= coarseStep
	}
	step := coarseStep
	for range congestionHalving {
		step = math.Sqrt(step)
		ok, err := sustains(offered / step)
		if err != nil {
			return 0, err
		}
		if ok {
			offered /= step
		}
	}
	return offered, nil
}

func (f LineFigure) sustained() bool {
	return f.Sent > 0 && float64(f.Lost) <= sustainedLoss*float64(f.Sent)
}

// underCongestion offers a load for d while the background runs.
func (l *Line) underCongestion(ctx context.Context, c Congestion, offered float64,
	d time.Duration) (f LineFigure, err error) {
	if err := l.net.wires.setLimits(l.options.Nodes, c.FramesPerS); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, l.net.wires.setLimits(l.options.Nodes, 0)) }()
	b, err := l.newBackground(c)
	if err != nil {
		return f, err
	}
	l.load.beside = b.run
	defer func() { l.load.beside = nil }()
	return l.measure(ctx, pace{perSecond: offered, batch: 1}, d)
}

// background is traffic through some nodes.
type background struct {
	program   *ebpf.Program
	ports     []*port // ports of the client's host that send it
	perSecond float64 // through each node
	sent      []int
}

// idleAddr returns an unused address behind the client's link to a node.
func idleAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 2, byte(i + 1)}) }

// backgroundBytes is the length of a background frame, the shortest that Ethernet allows.
const backgroundBytes = 60

// newBackground makes frames that enter a node at its link to the client. The node routes them back
// over the same link.
func (l *Line) newBackground(c Congestion) (*background, error) {
	w := l.net.wires
	b := &background{program: w.collection.Programs["background"], perSecond: c.FramesPerS * c.BackgroundLoad}
	for _, i := range c.Nodes {
		if i < 0 || i >= l.options.Nodes {
			return nil, wrongOption("congested node: 0 to %d, not %d", l.options.Nodes-1, i)
		}
		near, far := l.net.near[i], l.net.far[i]
		message := make([]byte, backgroundBytes-frame.HeaderBytes)
		port := l.addrOf(i).Port()
		made := frame.Append(nil, &frame.Packet{
			SourceMAC: frame.MAC(near.mac), DestMAC: frame.MAC(far.mac),
			From: netip.AddrPortFrom(near.addr, port), To: netip.AddrPortFrom(idleAddr(i), port), Message: message,
		})
		if err := w.collection.Maps["frames"].Put(uint32(near.index), append(made, 0, 0, 0, 0)); err != nil {
			return nil, fmt.Errorf("prepare background traffic: %w", err)
		}
		if err := leadNowhere(near, far, idleAddr(i)); err != nil {
			return nil, err
		}
		b.ports, b.sent = append(b.ports, near), append(b.sent, 0)
	}
	return b, nil
}

// leadNowhere routes an address from the node over its link to the client's host, which drops the
// packets.
func leadNowhere(near, far *port, addr netip.Addr) error {
	hole := &netlink.Route{Dst: single(addr), Type: routeBlackhole}
	out := &netlink.Route{LinkIndex: far.index, Dst: single(addr), Src: far.addr.AsSlice(), Scope: netlink.SCOPE_LINK}
	return errors.Join(
		near.host.handle.RouteReplace(hole),
		far.host.handle.RouteReplace(out),
		far.host.handle.NeighSet(&netlink.Neigh{
			LinkIndex: far.index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: net.HardwareAddr(near.mac),
		}),
	)
}

// run sends the frames that are due after the time elapsed, one per call, so that they mix with
// requests.
func (b *background) run(elapsed time.Duration) error {
	for i, p := range b.ports {
		due := min(int(b.perSecond*elapsed.Seconds())-b.sent[i], limitBurst/4)
		if due < 1 {
			continue
		}
		b.sent[i] += due
		in := make([]byte, backgroundBytes+1)
		_, err := b.program.Run(&ebpf.RunOptions{
			Data: in, Repeat: uint32(due), BatchSize: 1, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES,
			Context: xdpContext{DataEnd: uint32(len(in)), IngressIfindex: uint32(p.index)},
		})
		if err != nil {
			return fmt.Errorf("send background traffic: %w", err)
		}
	}
	return nil
}
