package bench

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// WriteOptions configure a measurement of writes to a chain.
type WriteOptions struct {
	NodeOptions
	Windows
	Nodes    int
	Slots    int // requests per frame; 0: one
	Progress Progress
}

// WriteResult is the rate and the packet count of writes to a chain.
type WriteResult struct {
	Subject
	WritesPerS      float64      `json:"writes_per_s"`
	PacketsPerWrite float64      `json:"packets_per_write"` // on all links, request and answer included
	Hops            int          `json:"hops"`              // links from the client through the chain back to the client
	EchoPerS        float64      `json:"echo_per_s"`
	Ratio           float64      `json:"ratio"`
	Nodes           int          `json:"nodes"`
	Sent            uint64       `json:"sent"`
	Lost            uint64       `json:"lost"`
	Wrong           uint64       `json:"wrong"`
	Slots           int          `json:"slots"` // requests per frame
	Keys            int          `json:"keys"`
	ValueBytes      int          `json:"value_bytes"`
	Rounds          []WriteRound `json:"rounds"`
	Host            Host         `json:"machine"`
}

// WriteRound is one window of the chain and of the limit.
type WriteRound struct {
	WritesPerS float64 `json:"writes_per_s"`
	EchoPerS   float64 `json:"echo_per_s"`
}

// Write measures PUTs to the head of a chain and counts the packets on all links. It compares them
// with an XDP program on one link that only swaps addresses and returns a packet of the answer's
// size.
func Write(ctx context.Context, o WriteOptions) (*WriteResult, error) {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return nil, err
	}
	bundled, err := newBundle(o.Slots, o.ValueBytes, true, false)
	if err != nil {
		return nil, err
	}
	m, err := newMesh(o.Nodes, &o.NodeOptions)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	keys := randomKeys(o.Keys)
	put := request{op: wire.OpPut, valueBytes: o.ValueBytes, keys: keys, bundle: bundled}
	r := &WriteResult{
		Nodes: o.Nodes, Slots: max(o.Slots, 1), Subject: m.nodes[0].subject(), Keys: o.Keys, ValueBytes: o.ValueBytes,
		Host: ThisHost(),
	}
	o.Progress.say("writing each of %d keys once", o.Keys)
	if err := m.countPackets(ctx, put, r); err != nil {
		return nil, err
	}
	put.keys = o.order(keys)
	runners, err := m.writers(put)
	if err != nil {
		return nil, err
	}
	for i := range runners {
		o.Progress.say("looking for the highest rate of %s", runners[i].name)
		if err := runners[i].prepare(ctx); err != nil {
			return nil, err
		}
	}
	rates, err := o.take(ctx, runners, o.Progress)
	if err != nil {
		return nil, err
	}
	r.summarise(rates, &runners[0].total)
	return r, nil
}

// packetSample is the minimum number of writes for counting packets.
const packetSample = 10_000

// writers returns the chain and the swap program, each with a load of these writes.
func (m *mesh) writers(put request) ([]contestant, error) {
	far, err := m.host()
	if err != nil {
		return nil, err
	}
	near, end, err := connect(m.gen, "to-swap", linkAddr(0, 1), far, "swap", linkAddr(0, 2))
	if err != nil {
		return nil, err
	}
	direct := way{from: near, to: end, dest: netip.AddrPortFrom(end.addr, wire.Port)}
	chain, err := newLoad(&put, m.ways[0], m.genPorts()...)
	if err != nil {
		return nil, err
	}
	m.undo.add(chain.close)
	put.onlySizes = true
	swap, err := newLoad(&put, direct, near)
	if err != nil {
		return nil, err
	}
	m.undo.add(swap.close)
	if err := swap.attachSwap(end, m.nodes[0].generic()); err != nil {
		return nil, err
	}
	return []contestant{{name: "chain", load: chain}, {name: "swap", load: swap}}, nil
}

// countPackets makes writes of each key at the rate of their answers and counts their packets on the links.
func (m *mesh) countPackets(ctx context.Context, put request, r *WriteResult) error {
	l, err := newLoad(&put, m.ways[0], m.genPorts()...)
	if err != nil {
		return err
	}
	defer l.close()
	before, err := m.packets()
	if err != nil {
		return err
	}
	t, err := l.sendEach(ctx, max(len(put.keys), packetSample), sendBatch)
	if err != nil {
		return err
	}
	if t.OK != t.Sent {
		return fmt.Errorf("the chain did not apply all writes: %v", t)
	}
	after, err := m.packets()
	if err != nil {
		return err
	}
	r.PacketsPerWrite = float64(after-before) / float64(t.OK)
	r.Hops = t.HopsMax
	return nil
}

func (r *WriteResult) summarise(rates [][]float64, total *Counters) {
	var ratios []float64
	for i := range rates[0] {
		r.Rounds = append(r.Rounds, WriteRound{rates[0][i], rates[1][i]})
		ratios = append(ratios, rates[0][i]/rates[1][i])
	}
	r.WritesPerS, r.EchoPerS, r.Ratio = statistics.Median(rates[0]), statistics.Median(rates[1]), statistics.Median(ratios)
	r.Sent, r.Lost, r.Wrong = total.Sent, total.Lost(), total.Wrong
}

// Table returns one row per round.
func (r *WriteResult) Table() ([]string, [][]string) {
	var rows [][]string
	row := func(name string, writes, swaps, ratio float64) {
		rows = append(rows, []string{name, count(writes), count(swaps), fmt.Sprintf("%.3f", ratio)})
	}
	for i, x := range r.Rounds {
		row(fmt.Sprint(i+1), x.WritesPerS, x.EchoPerS, x.WritesPerS/x.EchoPerS)
	}
	row("median", r.WritesPerS, r.EchoPerS, r.Ratio)
	return []string{"round", "writes/s", "swap/s", "ratio"}, rows
}

// Summary states the packets and hops per write.
func (r *WriteResult) Summary() string {
	return fmt.Sprintf("chain of %d, %d keys of %d bytes%s, plane %s: "+
		"%.2f packets per write on all links (at most %d), answer after %d hops;\n"+
		"%d writes, %d wrong, %d lost. swap: one node that only sends a packet of the answer's size back.\n%v",
		r.Nodes, r.Keys, r.ValueBytes, inFrames(r.Slots), r.describe(), r.PacketsPerWrite, 2*r.Nodes, r.Hops, r.Sent,
		r.Wrong, r.Lost, r.Host)
}
