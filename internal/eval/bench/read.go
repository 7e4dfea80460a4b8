package bench

import (
	"context"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/eval/statistics"
	"github.com/netcraq/netcraq/internal/node/dataplane"
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
	Rounds            []Round `json:"rounds"`
	Host              Host    `json:"machine"`
}

// Round is one window of the three.
type Round struct {
	ReadsPerS      float64 `json:"reads_per_s"`
	EchoPerS       float64 `json:"echo_per_s"`
	SocketEchoPerS float64 `json:"socket_echo_per_s"`
}

// readStage joins a generator's host and a configured node's host by one link per contestant; all
// links are alike.
type readStage struct {
	gen, node *host
	keys      []wire.Key
	bundle    bundle // of all requests except those that fill the node
	plane     *node
	ways      [3]way
	runners   [3]contestant
	undo      undo
}

// The indexes of the contestants, in measuring order.
const (
	theNode = iota
	theSwap
	theSocket
)

// echoPort is the UDP port of the echo server.
const echoPort = 7

var contestantNames = [3]string{"node", "swap", "socket"}

// Read measures reads of clean objects, an XDP program that only swaps addresses, and a UDP echo
// server on sockets. All three get the same generator, sizes and counter.
func Read(ctx context.Context, o ReadOptions) (*ReadResult, error) {
	r, _, err := readAndUsage(ctx, o)
	return r, err
}

// readAndUsage also returns the resources of the node's tables after the reads.
func readAndUsage(ctx context.Context, o ReadOptions) (*ReadResult, dataplane.Usage, error) {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return nil, dataplane.Usage{}, err
	}
	bundled, err := newBundle(o.Slots, o.ValueBytes, false, false)
	if err != nil {
		return nil, dataplane.Usage{}, err
	}
	s, err := newReadStage(&o.NodeOptions)
	if err != nil {
		return nil, dataplane.Usage{}, err
	}
	defer s.undo.run()
	s.bundle = bundled
	r, err := s.read(ctx, &o)
	if err != nil {
		return nil, dataplane.Usage{}, err
	}
	usage, err := s.plane.plane.Usage()
	return r, usage, err
}

func (s *readStage) read(ctx context.Context, o *ReadOptions) (*ReadResult, error) {
	o.Progress.say("writing %d keys of %d bytes", o.Keys, o.ValueBytes)
	start := time.Now()
	if err := fill(ctx, s.keys, o.ValueBytes, s.ways[theNode], s.ways[theNode].from); err != nil {
		return nil, err
	}
	r := &ReadResult{
		Subject: s.plane.subject(), Keys: o.Keys, ValueBytes: o.ValueBytes, Slots: max(o.Slots, 1),
		FillS: time.Since(start).Seconds(), Host: ThisHost(),
	}
	if err := s.prepare(ctx, o.ValueBytes, o.Progress); err != nil {
		return nil, err
	}
	rates, err := o.take(ctx, s.runners[:], o.Progress)
	if err != nil {
		return nil, err
	}
	for n := range o.Rounds {
		r.Rounds = append(r.Rounds, Round{rates[theNode][n], rates[theSwap][n], rates[theSocket][n]})
	}
	r.summarise(&s.runners[theNode].total)
	return r, nil
}

func newReadStage(o *NodeOptions) (s *readStage, err error) {
	s = &readStage{keys: randomKeys(o.Keys)}
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
	for i, name := range contestantNames {
		near, far, err := connect(s.gen, "to-"+name, linkAddr(i, 1), s.node, name, linkAddr(i, 2))
		if err != nil {
			return nil, err
		}
		s.ways[i] = way{from: near, to: far, dest: netip.AddrPortFrom(far.addr, wire.Port)}
	}
	s.ways[theSocket].dest = netip.AddrPortFrom(s.ways[theSocket].to.addr, echoPort)
	return s, s.startNode(o)
}

// linkAddr returns the address of one end of a link.
func linkAddr(link, end int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(link), byte(end)})
}

func (s *readStage) startNode(o *NodeOptions) error {
	w := s.ways[theNode]
	n, err := openNode(s.node, w.dest, []*port{w.to}, o)
	if err != nil {
		return err
	}
	s.plane = n
	s.undo.add(n.close)
	return join([]*node{n}, []netip.AddrPort{w.dest})
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
			op: wire.OpRead, valueBytes: valueBytes, versionMax: fillPasses, onlySizes: i != theNode,
			keys: s.keys, bundle: s.bundle,
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
}
