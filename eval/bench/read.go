package bench

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	programs "github.com/netcraq/netcraq/p4"
	"github.com/netcraq/netcraq/wire"
)

// ReadOptions configure a measurement of clean reads.
type ReadOptions struct {
	NodeOptions
	Windows
	Slots    int // requests per frame; 0: one
	Progress Progress
}

// ReadResult compares a node's reads with the limits of the machine.
type ReadResult struct {
	Subject
	ReadsPerS         float64 `json:"reads_per_s"`
	EchoPerS          float64 `json:"echo_per_s"`
	Ratio             float64 `json:"ratio"`
	SocketEchoPerS    float64 `json:"socket_echo_per_s"`
	RatioToSocketEcho float64 `json:"ratio_to_socket_echo"`
	Sent              uint64  `json:"sent"`
	Lost              uint64  `json:"lost"`
	Wrong             uint64  `json:"wrong"`
	Keys              int     `json:"keys"`
	ValueBytes        int     `json:"value_bytes"`
	Slots             int     `json:"slots"` // requests per frame
	FillS             float64 `json:"fill_s"`
	// Switch compares a p4 node with others; nil for other planes, and for values of other than 16 bytes.
	Switch *SwitchRatios `json:"switch,omitempty"`
	Rounds []Round       `json:"rounds"`
	Host   Host          `json:"machine"`
}

// SwitchRatios compare a node on a switch with a program on the same switch that only swaps addresses, and
// with an XDP node.
type SwitchRatios struct {
	SwapPerS     float64 `json:"swap_per_s"`
	XDPReadsPerS float64 `json:"xdp_reads_per_s"`
	RatioToSwap  float64 `json:"ratio_to_swap"`
	RatioToXDP   float64 `json:"ratio_to_xdp"`
}

// Round is one window of each contestant.
type Round struct {
	ReadsPerS      float64 `json:"reads_per_s"`
	EchoPerS       float64 `json:"echo_per_s"`
	SocketEchoPerS float64 `json:"socket_echo_per_s"`
	SwitchSwapPerS float64 `json:"switch_swap_per_s,omitempty"` // of a p4 node only
	XDPReadsPerS   float64 `json:"xdp_reads_per_s,omitempty"`   // of a p4 node only
}

// readStage joins a generator's host and a configured node's host by one link per contestant; all
// links are alike.
type readStage struct {
	gen, node *host
	keys      []wire.Key // in the order of insertion
	asked     []wire.Key // in the order of requests
	bundle    bundle     // of all requests except those that fill the node
	plane     *node
	ways      []way
	runners   []contestant
	undo      undo
}

// The indexes of the contestants, in measuring order.
const (
	theNode = iota
	theSwap
	theSocket
	theSwitchSwap // with a p4 node only, as the next
	theXDPNode
)

// echoPort is the UDP port of the echo server.
const echoPort = 7

var contestantNames = []string{"node", "swap", "socket", "p4swap", "xdp"}

// switchAnswerValueBytes is the length of values for which p4/swap.p4 makes packets of the answer's size.
const switchAnswerValueBytes = 16

// contestants returns the names of the contestants for a node. A p4 node with values of another length has no more than
// the others.
func contestants(o *NodeOptions) []string {
	if o.Plane == planeP4 && o.ValueBytes == switchAnswerValueBytes {
		return contestantNames
	}
	return contestantNames[:theSwitchSwap]
}

// Read measures reads of clean objects, an XDP program that only swaps addresses, and a UDP echo
// server on sockets. With a p4 node, it also measures a P4 program that only swaps addresses, and an
// XDP node. All get the same generator, sizes and counter.
func Read(ctx context.Context, o ReadOptions) (*ReadResult, error) {
	return readAndLook(ctx, o, func(dataplane.Plane) error { return nil })
}

// readAndLook also looks at the plane after the reads.
func readAndLook(ctx context.Context, o ReadOptions, look func(dataplane.Plane) error) (*ReadResult, error) {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return nil, err
	}
	bundled, err := newBundle(o.Slots, o.ValueBytes, false, false)
	if err != nil {
		return nil, err
	}
	s, err := newReadStage(&o.NodeOptions)
	if err != nil {
		return nil, err
	}
	defer s.undo.run()
	s.bundle = bundled
	r, err := s.read(ctx, &o)
	if err != nil {
		return nil, err
	}
	return r, look(s.plane.plane)
}

func (s *readStage) read(ctx context.Context, o *ReadOptions) (*ReadResult, error) {
	o.Progress.say("writing %d keys of %d bytes", o.Keys, o.ValueBytes)
	start := time.Now()
	for i := range s.ways {
		if !isNode(i) {
			continue
		}
		if err := fill(ctx, s.keys, o.ValueBytes, s.ways[i], s.ways[i].from); err != nil {
			return nil, err
		}
	}
	r := &ReadResult{
		Subject: s.plane.subject(), Keys: o.Keys, ValueBytes: o.ValueBytes, Slots: max(o.Slots, 1),
		FillS: time.Since(start).Seconds(), Host: ThisHost(),
	}
	if err := s.prepare(ctx, o.ValueBytes, o.Progress); err != nil {
		return nil, err
	}
	rates, err := o.take(ctx, s.runners, o.Progress)
	if err != nil {
		return nil, err
	}
	for n := range o.Rounds {
		round := Round{ReadsPerS: rates[theNode][n], EchoPerS: rates[theSwap][n], SocketEchoPerS: rates[theSocket][n]}
		if len(rates) > theXDPNode {
			round.SwitchSwapPerS, round.XDPReadsPerS = rates[theSwitchSwap][n], rates[theXDPNode][n]
		}
		r.Rounds = append(r.Rounds, round)
	}
	r.summarise(&s.runners[theNode].total)
	return r, nil
}

// isNode reports whether a contestant is a node. The others only send requests back.
func isNode(contestant int) bool { return contestant == theNode || contestant == theXDPNode }

func newReadStage(o *NodeOptions) (s *readStage, err error) {
	names := contestants(o)
	s = &readStage{
		keys: randomKeys(o.Keys), ways: make([]way, len(names)), runners: make([]contestant, len(names)),
	}
	s.asked = o.order(s.keys)
	defer func() {
		if err != nil {
			s.undo.run()
		}
	}()
	if s.gen, err = newHost(); err != nil {
		return nil, err
	}
	s.undo.add(s.gen.close)
	if s.node, err = newHost(); err != nil {
		return nil, err
	}
	s.undo.add(s.node.close)
	for i, name := range names {
		near, far, err := connect(s.gen, "to-"+name, linkAddr(i, 1), s.node, name, linkAddr(i, 2))
		if err != nil {
			return nil, err
		}
		s.ways[i] = way{from: near, to: far, dest: netip.AddrPortFrom(far.addr, wire.Port)}
	}
	s.ways[theSocket].dest = netip.AddrPortFrom(s.ways[theSocket].to.addr, echoPort)
	if s.plane, err = s.startNode(theNode, o); err != nil || len(names) <= theSwitchSwap {
		return s, err
	}
	return s, s.startRivals(o)
}

// linkAddr returns the address of one end of a link.
func linkAddr(link, end int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(link), byte(end)})
}

func (s *readStage) startNode(contestant int, o *NodeOptions) (*node, error) {
	w := s.ways[contestant]
	n, err := openNode(s.node, w.dest, []*port{w.to}, o)
	if err != nil {
		return nil, err
	}
	s.undo.add(n.close)
	return n, join([]*node{n}, []netip.AddrPort{w.dest})
}

// startRivals starts the contestants of a p4 node: the program that only swaps addresses, and an XDP node.
func (s *readStage) startRivals(o *NodeOptions) error {
	w := s.ways[theSwitchSwap]
	err := s.node.do(func() error {
		swap, err := p4.OpenBare(programs.Swap, w.dest, w.to.name)
		if err == nil {
			s.undo.add(func() { swap.Close() })
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start the P4 program that swaps addresses: %w", err)
	}
	inKernel := *o
	inKernel.Plane, inKernel.Mode = planeXDP, string(xdp.Auto)
	_, err = s.startNode(theXDPNode, &inKernel)
	return err
}

// prepare starts the swap program and the echo server, loads the generators and finds each
// contestant's pace.
func (s *readStage) prepare(ctx context.Context, valueBytes int, progress Progress) error {
	answerBytes := wire.VersionBytes + valueBytes
	if s.bundle.slots > 0 {
		answerBytes = s.bundle.bytes()
	}
	server, err := newEchoServer(s.node, s.ways[theSocket].dest, answerBytes)
	if err != nil {
		return err
	}
	s.undo.add(server.close)
	for i := range s.runners {
		r := &request{
			op: wire.OpRead, valueBytes: valueBytes, versionMax: fillPasses, onlySizes: !isNode(i),
			keys: s.asked, bundle: s.bundle,
		}
		l, err := newLoad(r, s.ways[i], s.ways[i].from)
		if err != nil {
			return err
		}
		s.undo.add(l.close)
		if i == theSwap {
			if err := l.attachSwap(s.ways[i].to, s.plane.generic()); err != nil {
				return err
			}
		}
		s.runners[i] = contestant{name: contestantNames[i], load: l}
		progress.say("looking for the highest rate of %s", contestantNames[i])
		if err := s.runners[i].prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// summarise takes medians over the rounds. Ratios are taken within a round, where the machine's
// speed is the same for all.
func (r *ReadResult) summarise(total *Counters) {
	var reads, echoes, sockets, ratios, socketRatios []float64
	for _, round := range r.Rounds {
		reads = append(reads, round.ReadsPerS)
		echoes = append(echoes, round.EchoPerS)
		sockets = append(sockets, round.SocketEchoPerS)
		ratios = append(ratios, round.ReadsPerS/round.EchoPerS)
		socketRatios = append(socketRatios, round.ReadsPerS/round.SocketEchoPerS)
	}
	r.ReadsPerS, r.EchoPerS, r.SocketEchoPerS = statistics.Median(reads), statistics.Median(echoes), statistics.Median(sockets)
	r.Ratio, r.RatioToSocketEcho = statistics.Median(ratios), statistics.Median(socketRatios)
	r.Sent, r.Lost, r.Wrong = total.Sent, total.Lost(), total.Wrong
	if r.Rounds[0].SwitchSwapPerS > 0 {
		r.Switch = switchRatios(r.Rounds)
	}
}

func switchRatios(rounds []Round) *SwitchRatios {
	var swaps, xdpReads, toSwap, toXDP []float64
	for _, round := range rounds {
		swaps = append(swaps, round.SwitchSwapPerS)
		xdpReads = append(xdpReads, round.XDPReadsPerS)
		toSwap = append(toSwap, round.ReadsPerS/round.SwitchSwapPerS)
		toXDP = append(toXDP, round.ReadsPerS/round.XDPReadsPerS)
	}
	return &SwitchRatios{
		SwapPerS: statistics.Median(swaps), XDPReadsPerS: statistics.Median(xdpReads),
		RatioToSwap: statistics.Median(toSwap), RatioToXDP: statistics.Median(toXDP),
	}
}
