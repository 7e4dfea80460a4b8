package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/wire"
)

// LineOptions describe the chain that OpenLine makes.
type LineOptions struct {
	Protocol   Protocol
	Nodes      int     // 1 to wire.MaxChain
	Keys       int     // objects; OpenLine stores all of them
	ValueBytes int     // length of every value; NetCRAQPaper supports 16 only
	Seq32      bool    // NetChain only: SEQ has 32 bits
	Versions   int     // NetCRAQPaper only: cells per object; 0: netcraqpaper.DefaultVersions
	Zipf       float64 // exponent of the keys' popularity; 0: uniform
	Relay      bool    // NetCRAQ only: ACKs travel up the chain one by one instead of being cloned
	Wires      bool    // enables Work.LossPercent and Work.Congestion
	P4         bool    // the nodes are P4 programs on SWX, not XDP programs, which agents, and so losses, need
	Conditions
	Progress Progress
}

func (o *LineOptions) validate() error {
	longest := wire.MaxValueBytes
	switch o.Protocol {
	case NetCRAQ:
	case NetChain:
		longest = netchain.MaxValueBytes
	case NetCRAQPaper:
		if o.ValueBytes != netcraqpaper.ValueBytes {
			return wrongOption("%s has values of %d bytes, not %d", o.Protocol, netcraqpaper.ValueBytes, o.ValueBytes)
		}
	default:
		return wrongOption("protocol %q: want %s, %s or %s", o.Protocol, NetCRAQ, NetChain, NetCRAQPaper)
	}
	switch {
	case o.Nodes < 1 || o.Nodes > wire.MaxChain:
		return wrongOption("a line has 1 to %d nodes, not %d", wire.MaxChain, o.Nodes)
	case o.Keys < 1 || o.Keys > maxKeys:
		return wrongOption("1 to %d keys, not %d", maxKeys, o.Keys)
	case o.ValueBytes < 0 || o.ValueBytes > longest:
		return wrongOption("values of 0 to %d bytes, not %d", longest, o.ValueBytes)
	case o.Zipf < 0:
		return wrongOption("a Zipf exponent of at least 0, not %v", o.Zipf)
	case o.Versions == 1 || o.Versions < 0:
		return wrongOption("at least 2 versions of an object, not %d", o.Versions)
	case o.P4 && o.Wires:
		return wrongOption("a line of P4 nodes has no wires")
	}
	return nil
}

// Line is a chain of nodes in a line, as in the testbed of NetCRAQ's papers: head, replicas, tail.
// Each node has a link to the next one and no other link to nodes. A client's host has a link to
// every node. A request enters at one node and passes through all nodes on its way, and so does its
// answer. In all protocols, nodes forward packets for other nodes themselves: in XDP, or in the switch. Everything is in
// namespaces without names and disappears with the process.
//
// A Line must be used by one goroutine at a time.
type Line struct {
	options LineOptions
	net     *lineNetwork
	nodes   []lineNode
	keys    []wire.Key // all
	asked   []wire.Key // in request order
	undo    undo

	load   *load // of the last work
	loaded loadKind
	paces  map[paceKind]pace
	dirty  bool // some objects are dirty
	stale  bool // writes of NetCRAQPaper may have been lost

	stopAgents func() // nil if no agents run
}

// OpenLine builds the line, starts the nodes and fills them.
func OpenLine(ctx context.Context, o LineOptions) (*Line, error) {
	if o.Versions == 0 {
		o.Versions = netcraqpaper.DefaultVersions
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Line{options: o, paces: make(map[paceKind]pace)}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Line) open(ctx context.Context) error {
	o := &l.options
	l.keys = randomKeys(o.Keys)
	if o.Protocol == NetCRAQPaper {
		l.keys = netcraqPaperKeys(o.Keys)
	}
	l.asked = o.order(l.keys)
	if o.Zipf > 0 {
		l.asked = zipfKeys(l.asked, o.Zipf)
	}
	var err error
	if l.net, err = newLineNetwork(o.Nodes, o.Wires, &l.undo); err != nil {
		return err
	}
	if o.P4 {
		if err := l.net.leaveForwarding(); err != nil {
			return err
		}
	}
	o.Progress.say("starting %d nodes of %s", o.Nodes, o.Protocol)
	for i, h := range l.net.hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		var n lineNode
		err := h.do(func() error {
			var err error
			n, err = l.openNode(i)
			return err
		})
		if err != nil {
			return fmt.Errorf("start node %d: %w", i, err)
		}
		l.nodes = append(l.nodes, n)
		l.undo.add(func() { n.close() })
	}
	return l.fill(ctx)
}

// Close stops the nodes and removes the namespaces.
func (l *Line) Close() {
	l.unload()
	_ = l.settle(false) // all of it goes
	l.undo.run()
}

// Options returns the options of OpenLine.
func (l *Line) Options() LineOptions { return l.options }
