package bench

import (
	"context"
	"log/slog"
	"sync"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// settle starts what settles dirty objects at NetCRAQ's nodes, as every real node has it (W9), or stops it. It runs where
// frames are lost and nowhere else: there is nothing to settle without loss, and what is made dirty on purpose has to stay so.
// The papers' protocols have nothing of this kind.
func (l *Line) settle(on bool) error {
	if !on || l.options.Protocol != NetCRAQ {
		if l.stopAgents != nil {
			l.stopAgents()
			l.stopAgents = nil
		}
		return nil
	}
	if l.stopAgents != nil {
		return nil
	}
	var nodes []*node
	for _, n := range l.nodes {
		nodes = append(nodes, n.(*node))
	}
	var err error
	l.stopAgents, err = startAgents(nodes)
	return err
}

// startAgents starts an agent for each node, which settles what stays dirty (W9). They run until stop;
// if one cannot be made, none runs, and stop is nil.
func startAgents(nodes []*node) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stop = func() { cancel(); running.Wait() }
	for _, n := range nodes {
		a, err := agent.New(agent.Options{Plane: n.plane, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			stop()
			return nil, err
		}
		running.Go(func() { _ = a.Serve(ctx) }) // without API and controllers nothing in it can fail
	}
	return stop, nil
}
