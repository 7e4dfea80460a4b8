package bench

import (
	"context"
	"log/slog"
	"sync"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// settle starts or stops the agents that settle dirty objects at NetCRAQ's nodes (W9); every
// deployed node has one. They run only while frames are lost: without loss there is nothing to
// settle, and objects made dirty on purpose have to stay dirty. The papers' protocols have no
// counterpart.
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

// startAgents starts an agent for each node, which settles objects that stay dirty (W9). The agents
// run until stop is called. If one cannot be made, none runs and stop is nil.
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
		running.Go(func() { _ = a.Serve(ctx) }) // cannot fail: it has no API and no controllers
	}
	return stop, nil
}
