package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	// compareWithin is how long a start may wait for another node's agent; one that does not run refuses at once.
	compareWithin = 300 * time.Millisecond
	// compareAgain is the first pause before agents that did not answer are asked again; it doubles up to comparePause.
	compareAgain = time.Second
	comparePause = time.Minute
)

// checkCells refuses to make a chain of nodes with different cells: its head would take values that its tail drops for
// ever, and those objects would never be clean again. A plane that outlived an agent goes on; watchCells will complain.
func (a *Agent) checkCells(c *topology.Cluster) error {
	kept, err := a.hasState()
	if err != nil || kept {
		return err
	}
	var group errgroup.Group
	for _, node := range a.neighbours(c) {
		group.Go(func() error {
			_, err := a.compareCells(context.Background(), node)
			return err
		})
	}
	return group.Wait()
}

// watchCells compares cells with all nodes of this node's chains, each as soon as it answers: nodes that start together
// cannot ask each other before.
func (a *Agent) watchCells(ctx context.Context, c *topology.Cluster) {
	waiting := a.neighbours(c)
	for pauses := retry.Between(compareAgain, comparePause); ; {
		waiting = slices.DeleteFunc(waiting, func(node topology.Node) bool {
			answered, err := a.compareCells(ctx, node)
			if err != nil {
				a.log.Error("long values will get stuck in the chain", "error", err)
			}
			return answered
		})
		if len(waiting) == 0 || !pauses.Wait(ctx) {
			return
		}
	}
}

// compareCells asks another node for its longest value. It is an error if that is not this node's.
func (a *Agent) compareCells(ctx context.Context, node topology.Node) (answered bool, err error) {
	client, conn, err := Dial(node.APIAddr(), a.options.DialOptions...)
	if err != nil {
		return false, nil // an address that cannot be called is one that does not answer
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	info, err := client.Info(ctx, &agentv1.InfoRequest{})
	if err != nil {
		return false, nil // not yet there, or gone
	}
	own, theirs := a.options.Plane.Info().Options.CellBytes, int(info.GetCellBytes())
	if own != theirs {
		return true, fmt.Errorf("%s stores values of up to %d bytes, but %s up to %d: all nodes of a chain need the same --cell-bytes",
			a.options.Name, own, node.Name, theirs)
	}
	return true, nil
}

// neighbours are the other nodes of this node's chains.
func (a *Agent) neighbours(c *topology.Cluster) []topology.Node {
	var nodes []topology.Node
	for _, node := range c.Nodes {
		if node.Name != a.options.Name && slices.ContainsFunc(c.Chains, func(names []string) bool {
			return slices.Contains(names, node.Name) && slices.Contains(names, a.options.Name)
		}) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
