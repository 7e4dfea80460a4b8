package bench

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// ProtectionOptions configure a measurement of what protections cost.
type ProtectionOptions struct {
	Rounds   int
	Messages int // of each kind, in each round
	Progress Progress
}

// ProtectionResult is the time that one message takes a node's programs in the kernel, with each set of protections.
type ProtectionResult struct {
	Kinds    []ProtectionCost `json:"kinds"`
	Rounds   int              `json:"rounds"`
	Messages int              `json:"messages"`
	Host     Host             `json:"machine"`
}

// ProtectionCost is what one kind of message costs.
type ProtectionCost struct {
	Kind string               `json:"kind"`
	With []ProtectionVariants `json:"with"`
}

// ProtectionVariants is the cost with one set of protections. PerS is what one CPU's programs could handle.
type ProtectionVariants struct {
	Protections string  `json:"protections"`
	Ns          float64 `json:"ns"`
	PerS        float64 `json:"per_s"`
	Ratio       float64 `json:"ratio"` // of PerS to that without protections: median of the rounds' ratios
}

// protections are the sets compared. Rates are so high that nothing is refused.
var protections = []struct {
	name    string
	options chain.Options
}{
	{"none", chain.Options{}},
	{"tags", chain.Options{Tags: wire.TagsRequired}},
	{"answer rate", chain.Options{AnswerRate: 1_000_000_000}},
	{"answer and client rates", chain.Options{AnswerRate: 1_000_000_000, ClientRate: 10_000_000}},
	{"all", chain.Options{Tags: wire.TagsRequired, AnswerRate: 1_000_000_000, ClientRate: 10_000_000}},
}

// protected is a node with one set of protections, the middle one of a chain of three, but for one shard whose tail it is.
type protected struct {
	*harness.XDP
	tags bool
	seq  uint64
	now  uint64
}

// message is one kind that is measured: from whom, and the n-th of it.
type message struct {
	kind string
	from netip.AddrPort
	make func(n uint64) wire.Message
}

// Keys of the objects that are read and written, by the shard that they are in.
var (
	shortKey, longKey = wire.Key{Hi: 1}, wire.Key{Hi: 2}
	headKey, tailKey  = wire.Key{Hi: 3, Lo: 1}, wire.Key{Hi: 4, Lo: 2}
)

var measured = []message{
	{"read, 16 bytes", conformance.Client(1), func(uint64) wire.Message { return wire.Message{Op: wire.OpRead, Key: shortKey} }},
	{"read, 1352 bytes", conformance.Client(1), func(uint64) wire.Message { return wire.Message{Op: wire.OpRead, Key: longKey} }},
	{"write at the head", conformance.Client(1), func(n uint64) wire.Message {
		return wire.Message{Op: wire.OpPut, Shard: 1, Key: headKey, Session: 1, Seq: n, Value: make([]byte, 16)}
	}},
	{"write at the tail, with its ACKs", conformance.Node(3), func(n uint64) wire.Message {
		return wire.Message{
			Op: wire.OpUpdate, Shard: 2, Key: tailKey, Session: 1, Seq: n, Version: n,
			Client: conformance.Client(1), ClientOp: wire.OpPut, Value: make([]byte, 16),
		}
	}},
}

// Protections measures, in turns, what tags and rates cost a node's programs for each message. It needs root.
func Protections(ctx context.Context, o ProtectionOptions) (*ProtectionResult, error) {
	if o.Rounds < 1 || o.Messages < 1 {
		return nil, wrongOption("--rounds and --messages must be at least 1, not %d and %d", o.Rounds, o.Messages)
	}
	counting, err := xdp.CountTime()
	if err != nil {
		return nil, fmt.Errorf("measuring the time of programs: %w", err)
	}
	defer counting.Close()
	nodes := make([]*protected, len(protections))
	for i := range nodes {
		o.Progress.say("loading the node with protections: %s", protections[i].name)
		if nodes[i], err = newProtected(protections[i].options); err != nil {
			return nil, err
		}
		defer nodes[i].Close()
	}
	ns := make([][][]float64, len(measured)) // by kind, protections, round
	for k := range ns {
		ns[k] = make([][]float64, len(nodes))
	}
	for round := range o.Rounds {
		o.Progress.say("round %d of %d", round+1, o.Rounds)
		for k := range measured {
			for i, n := range nodes {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				each, err := n.measure(&measured[k], o.Messages)
				if err != nil {
					return nil, fmt.Errorf("%s with %s: %w", measured[k].kind, protections[i].name, err)
				}
				ns[k][i] = append(ns[k][i], each)
			}
		}
	}
	return summariseProtections(ns, &o), nil
}

func summariseProtections(ns [][][]float64, o *ProtectionOptions) *ProtectionResult {
	r := &ProtectionResult{Rounds: o.Rounds, Messages: o.Messages, Host: ThisHost()}
	for k := range ns {
		cost := ProtectionCost{Kind: measured[k].kind}
		for i := range ns[k] {
			ratios := make([]float64, o.Rounds)
			for round := range ratios {
				ratios[round] = ns[k][0][round] / ns[k][i][round]
			}
			median := statistics.Median(ns[k][i])
			cost.With = append(cost.With, ProtectionVariants{protections[i].name, median, 1e9 / median, statistics.Median(ratios)})
		}
		r.Kinds = append(r.Kinds, cost)
	}
	return r
}

func newProtected(o chain.Options) (*protected, error) {
	m, err := harness.NewXDP()
	if err != nil {
		return nil, err
	}
	o.Shards, o.CellBytes, o.MaxObjects, o.MaxSessions = 4, wire.MaxValueBytes, 16, 16
	n := &protected{XDP: m, tags: o.Tags != wire.TagsOff, now: conformance.Now}
	shard := func(members ...netip.AddrPort) conformance.Shard {
		c := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: members}
		for i, member := range members {
			if member == conformance.Me {
				c.Self = i
			}
		}
		return conformance.Shard{Config: c, Lease: longLease}
	}
	object := func(length int) chain.Object {
		return chain.Object{Version: 1, Committed: 1, Epoch: 1, Value: make([]byte, length)}
	}
	one, three := conformance.Node(1), conformance.Node(3)
	state := conformance.State{
		Shards: map[uint16]conformance.Shard{
			0: shard(one, conformance.Me, three), 1: shard(conformance.Me, one, three), 2: shard(one, three, conformance.Me),
		},
		Objects: map[wire.Key]chain.Object{shortKey: object(16), longKey: object(wire.MaxValueBytes)},
	}
	if err = m.Reset(o); err == nil && n.tags {
		err = m.SetKeys(conformance.TestKeys())
	}
	if err == nil {
		err = m.Load(state)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return n, nil
}

// measure returns the nanoseconds that one message takes, all of which the node has to answer or pass on.
func (p *protected) measure(kind *message, messages int) (float64, error) {
	before, err := p.Spent()
	if err != nil {
		return 0, err
	}
	for range messages {
		p.seq++
		p.now += 1_000_000 // credits grow: nothing is refused
		if err := p.SetClock(p.now); err != nil {
			return 0, err
		}
		m := kind.make(p.seq)
		m.Epoch, m.Request = 1, p.seq
		datagram := m.Append(nil)
		if p.tags {
			ends := wire.Ends{From: kind.from, To: conformance.Me}
			if datagram, err = conformance.TestKeys().Append(datagram, ends); err != nil {
				return 0, err
			}
		}
		sent, err := p.Receive(kind.from, datagram, nil)
		if err != nil {
			return 0, err
		}
		if len(sent) == 0 {
			return 0, fmt.Errorf("message %d was dropped", p.seq)
		}
	}
	after, err := p.Spent()
	return float64((after - before).Nanoseconds()) / float64(messages), err
}

// Table implements [Report].
func (r *ProtectionResult) Table() ([]string, [][]string) {
	var rows [][]string
	for _, k := range r.Kinds {
		for _, w := range k.With {
			rows = append(rows, []string{
				k.Kind, w.Protections, fmt.Sprintf("%.0f", w.Ns), fmt.Sprintf("%.0f", w.PerS), fmt.Sprintf("%.2f", w.Ratio),
			})
		}
	}
	return []string{"message", "protections", "ns", "per_s", "ratio"}, rows
}

// Summary implements [Report].
func (r *ProtectionResult) Summary() string {
	return fmt.Sprintf("Time of the node's programs for one message: medians of %d rounds of %d; ratio of rates to none.",
		r.Rounds, r.Messages)
}
