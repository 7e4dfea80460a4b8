package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/bench"
)

func newBenchLineCommand(out *benchOutput) *cobra.Command {
	o := bench.LinesOptions{LineOptions: bench.LineOptions{Nodes: 4, Keys: 1000, ValueBytes: 16}}
	var protocols []string
	var congested []int
	c := &cobra.Command{
		Use:   "line",
		Short: "Chains in a line, of this project's protocol and of the papers' two, under the same load",
		Long: "Chains of nodes in a line, as in the testbed of NetCRAQ's papers: each node has a link to the next, the client has\n" +
			"one to the node where it is attached, and all packets pass through the nodes between. NetChain reads at the tail,\n" +
			"NetCRAQ at the client's node; writes go to the head. --rate measures latencies at that rate. With --slots netcraq's\n" +
			"client sends several requests per frame. The papers' protocols have no bundles, so compare protocols without --slots.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			o.Protocols = nil
			for _, p := range protocols {
				o.Protocols = append(o.Protocols, bench.Protocol(p))
			}
			if len(congested) > 0 {
				o.Congestion = &bench.Congestion{Nodes: congested}
			}
			o.Wires = o.Wires || o.LossPercent > 0 || o.Congestion != nil
			return runBench(c, out, func(ctx context.Context) (*bench.LinesResult, error) { return bench.Lines(ctx, o) })
		},
	}
	f := c.Flags()
	f.StringSliceVar(&protocols, "protocol", []string{string(bench.NetCRAQ), string(bench.NetChain),
		string(bench.NetCRAQPaper)},
		"protocols, which take turns")
	f.IntVar(&o.Nodes, "nodes", o.Nodes, "length of the chain")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value; 16 for netcraq-published")
	keysFlag(c, &o.Keys)
	f.Float64Var(&o.Zipf, "zipf", 0, "exponent of the keys' popularity; 0: all alike")
	slotsFlag(c, &o.Slots)
	conditionFlags(c, &o.Conditions)
	f.BoolVar(&o.Seq32, "seq32", false, "NetChain with sequence numbers of 32 bits instead of 16")
	f.BoolVar(&o.Relay, "relay", false, "netcraq: send ACKs up the chain node by node instead of cloning them")
	f.IntVar(&o.Versions, "versions", 0, "cells of an object of netcraq-published (default 8)")
	f.IntVar(&o.Target, "target", 0, "node where the client is attached; 0 is the head")
	f.Float64Var(&o.WriteShare, "write-share", 0, "share of the requests that are writes, 0 to 1")
	f.BoolVar(&o.Dirty, "dirty", false, "read objects that are dirty at all nodes but the tail")
	f.BoolVar(&o.Wires, "wires", false, "put wires between the hosts, as --loss and --congested do")
	f.Float64Var(&o.LossPercent, "loss", 0, "percent of the frames that every link loses")
	f.IntSliceVar(&congested, "congested", nil,
		"nodes with background traffic of three quarters of their capacity; limits every node to 5,000 frames a second")
	f.Float64Var(&o.Rate, "rate", 0,
		"requests offered a second, to measure how long answers take; 0: as many as are answered")
	f.Float64Var(&o.Seconds, "seconds", 1, "time under load for each protocol")
	f.IntVar(&o.Rounds, "rounds", 5, "measurement windows in which that time is spent")
	return c
}
