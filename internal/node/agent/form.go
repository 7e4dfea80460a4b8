package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	// askWithin bounds the wait for another node's answer.
	askWithin = time.Second
	// askFirst is the first pause before the nodes of the chains are asked again; it doubles up to askPause.
	askFirst = 20 * time.Millisecond
	askPause = time.Second
)

// WaitMessage is logged by a node of a static cluster that does not serve yet.
const WaitMessage = "waiting: this node has no state, and nodes of its chains that do not answer may store writes"

// StateLostError says that a node of a static cluster has lost writes that another node still stores (C10).
type StateLostError struct {
	Node, Witness string
}

func (e *StateLostError) Error() string {
	return fmt.Sprintf("%s stores writes of chains that it shares with %s, and %s has lost its state: %s cannot come "+
		"back into a static chain, where nothing is copied; save what is needed with `netcraq get` or `netcraq backup`, "+
		"stop every node of its chains (for xdp: `netcraq node --remove`), and start them all, empty",
		e.Witness, e.Node, e.Node, e.Node)
}

// formation is how the nodes of a static cluster that have no state begin to serve (C10).
type formation struct {
	incarnation uint64

	mu         sync.Mutex
	waiting    bool              // this node has no state and does not serve yet
	waitingFor []string          // names of nodes that have not answered
	met        map[string]uint64 // incarnations of the nodes that had nothing against it when this one began to serve
}

// standing is the answer of one node.
type standing struct {
	node   topology.Node
	answer *agentv1.StandingResponse
	err    error
}

// newFormation decides whether the node may serve at once: it kept its state, is alone in its chains, or an operator
// accepts that what silent nodes store is lost.
func (a *Agent) newFormation(c *topology.Cluster) error {
	a.formation.incarnation, a.formation.met = rand.Uint64()|1, make(map[string]uint64)
	kept, err := a.hasState()
	if err != nil {
		return err
	}
	others := a.neighbours(c)
	a.formation.waiting = !kept && len(others) > 0
	for _, node := range others {
		a.formation.waitingFor = append(a.formation.waitingFor, node.Name)
	}
	return nil
}

// hasState reports whether the plane serves a shard already: then it outlived an agent, with its objects.
func (a *Agent) hasState() (bool, error) {
	for shard := range a.options.Plane.Info().Options.Shards {
		config, err := a.options.Plane.Config(uint16(shard))
		if err != nil || config.State != chain.None {
			return true, err
		}
	}
	return false, nil
}

// form waits until no node of this node's chains stores a write that this node may have lost, then configures the plane.
// A node that does not answer may store some.
func (a *Agent) form(ctx context.Context, c *topology.Cluster) error {
	var before string
	var said time.Time
	for pause := askFirst; ; pause = min(2*pause, askPause) {
		silent, err := a.askAll(ctx, c)
		if err != nil {
			return err
		}
		text := strings.Join(silent, "; ")
		if len(silent) == 0 || a.options.AcceptDataLoss {
			if len(silent) > 0 {
				a.log.Warn("serves although nodes of its chains that do not answer may store writes", "nodes", text)
			}
			return a.begin(c)
		}
		if text != before || time.Since(said) > remindEvery {
			before, said = text, time.Now()
			a.log.Warn(WaitMessage,
				"nodes", text, "to_do", "start these nodes; if they are gone for ever, and what they stored may be lost, "+
					"start this one with --accept-data-loss")
		}
		if !retry.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// watchSilent asks the nodes that this one did not wait for (--accept-data-loss) until all have answered. One that comes
// back with writes ends this node: reads would differ from member to member.
func (a *Agent) watchSilent(ctx context.Context, c *topology.Cluster) error {
	for pause := askFirst; ; pause = min(2*pause, askPause) {
		silent, err := a.askAll(ctx, c)
		if err != nil || len(silent) == 0 {
			return err
		}
		if !retry.Sleep(ctx, pause) {
			return nil
		}
	}
}

// askAll asks all nodes of this node's chains once and lists those that gave no answer, with the reason.
func (a *Agent) askAll(ctx context.Context, c *topology.Cluster) (silent []string, err error) {
	nodes := a.neighbours(c)
	answers := make([]standing, len(nodes))
	var group sync.WaitGroup
	for i, node := range nodes {
		group.Go(func() { answers[i] = a.ask(ctx, node) })
	}
	group.Wait()
	f := &a.formation
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waitingFor = nil
	for _, s := range answers {
		switch {
		case s.err != nil:
			delete(f.met, s.node.Name)
			silent = append(silent, fmt.Sprintf("%s (%s: %s)", s.node.Name, s.node.APIAddr(), callerror.Text(s.err)))
			f.waitingFor = append(f.waitingFor, s.node.Name)
		case !s.answer.GetWaiting() && s.answer.GetStores() && s.answer.GetMet() != f.incarnation:
			return nil, &StateLostError{Node: a.options.Name, Witness: s.node.Name}
		default:
			f.met[s.node.Name] = s.answer.GetIncarnation()
		}
	}
	return silent, nil
}

func (a *Agent) ask(ctx context.Context, node topology.Node) standing {
	client, conn, err := Dial(node.APIAddr(), a.options.DialOptions...)
	if err != nil {
		return standing{node: node, err: err}
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answer, err := client.Standing(ctx, &agentv1.StandingRequest{
		Name: a.options.Name, Incarnation: a.formation.incarnation,
	})
	return standing{node, answer, err}
}

// begin configures the plane. Nodes that ask later are told that they were met, if they were: they cannot have lost what
// this node stores from now on.
func (a *Agent) begin(c *topology.Cluster) error {
	if err := a.checkCells(c); err != nil {
		return err
	}
	if err := a.applyCluster(c); err != nil {
		return err
	}
	a.formation.mu.Lock()
	defer a.formation.mu.Unlock()
	a.formation.waiting = false
	return nil
}

// Configured reports whether the node serves: not one of a static cluster that still waits for others.
func (a *Agent) Configured() bool { return !a.formation.isWaiting() }

// Await waits until the node serves: see [Agent.Configured].
func (a *Agent) Await(ctx context.Context) error {
	for !a.Configured() {
		if !retry.Sleep(ctx, askFirst) {
			return ctx.Err()
		}
	}
	return nil
}

func (f *formation) isWaiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

// names are those of the nodes that this one waits for.
func (f *formation) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.waiting {
		return nil
	}
	return slices.Clone(f.waitingFor)
}

// Standing answers a node of the same static cluster that has no state (C10).
func (s *service) Standing(_ context.Context, in *agentv1.StandingRequest) (*agentv1.StandingResponse, error) {
	c, f := s.agent.options.Cluster, &s.agent.formation
	if c == nil {
		return nil, status.Error(codes.FailedPrecondition, "no cluster file configures this node")
	}
	if _, ok := c.Node(in.GetName()); !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "there is no node %q in this node's cluster file", in.GetName())
	}
	f.mu.Lock()
	out := &agentv1.StandingResponse{Incarnation: f.incarnation, Waiting: f.waiting, Met: f.met[in.GetName()]}
	f.mu.Unlock()
	if out.Waiting {
		out.Met = 0
		return out, nil
	}
	loads, err := s.plane.Loads()
	if err != nil {
		return nil, statusOf(err)
	}
	for shard, load := range loads {
		names := c.Chain(uint16(shard))
		if load.Writes > 0 && slices.Contains(names, in.GetName()) && slices.Contains(names, s.agent.options.Name) {
			out.Stores = true
		}
	}
	return out, nil
}
