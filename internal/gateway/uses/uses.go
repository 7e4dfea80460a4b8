// Package uses asks the agents of a chain's nodes how often objects were read and written there. A gateway's clients
// are not the only ones that read its objects: others use the data plane, and only the nodes see all of them.
package uses

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/wire"
)

// atOnce bounds the agents that are asked at a time.
const atOnce = 16

// Agents are those of a chain's nodes. It implements [engine.Nodes].
type Agents struct {
	dial    []grpc.DialOption
	chain   atomic.Pointer[client.Client] // nil: not reached yet
	asking  sync.Mutex                    // locks what follows
	clients map[string]dialed             // by the address of the API
}

// dialed is a connection to an agent.
type dialed struct {
	agentv1.AgentClient
	conn *grpc.ClientConn
}

// New makes agents, which answer nothing before [Agents.Open].
func New(dial ...grpc.DialOption) *Agents {
	return &Agents{dial: dial, clients: make(map[string]dialed)}
}

// Open has the agents of a client's chain asked.
func (a *Agents) Open(chain *client.Client) { a.chain.Store(chain) }

// Close ends the connections. The agents may be asked again.
func (a *Agents) Close() error {
	a.asking.Lock()
	defer a.asking.Unlock()
	return a.keep(nil)
}

// question is what one agent is asked, and its answer.
type question struct {
	node   client.Node
	agent  dialed
	keys   []wire.Key
	index  []int // of each key, in all keys
	answer []*agentv1.ObjectUses
	err    error
}

// Uses implements [engine.Nodes].
func (a *Agents) Uses(ctx context.Context, objects []string) ([]engine.Uses, error) {
	uses := make([]engine.Uses, len(objects))
	chain := a.chain.Load()
	if chain == nil {
		return uses, nil
	}
	a.asking.Lock()
	defer a.asking.Unlock()
	questions := questionsTo(chain.Map(), objects)
	if err := a.connect(questions); err != nil {
		return uses, err
	}
	ask(ctx, questions)
	var troubles []error
	for _, q := range questions {
		if q.err != nil {
			troubles = append(troubles, fmt.Errorf("node %s: %s", q.node.Name, explain(q.err)))
			continue
		}
		q.note(uses)
	}
	return uses, errors.Join(troubles...)
}

// explain is the text of an agent's error.
func explain(err error) string {
	if status.Code(err) == codes.Unimplemented {
		return "its agent is of an older version"
	}
	return callerror.Text(err)
}

// questionsTo returns what to ask the complete members of the objects' chains, by name. An agent takes so many keys
// only.
func questionsTo(m *client.Map, objects []string) []*question {
	byName := make(map[string]*question)
	for i, name := range objects {
		key, err := wire.HashKey([]byte(name))
		if err != nil { // it has no object
			continue
		}
		for _, node := range m.Complete(m.Chain(key.Shard(m.Shards()))) {
			q := byName[node.Name]
			if q == nil {
				q = &question{node: node}
				byName[node.Name] = q
			}
			if len(q.keys) < agent.MaxUses {
				q.keys, q.index = append(q.keys, key), append(q.index, i)
			}
		}
	}
	questions := make([]*question, 0, len(byName))
	for _, q := range byName {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, func(a, b *question) int { return strings.Compare(a.node.Name, b.node.Name) })
	return questions
}

// connect gives each question its agent, and ends connections to others.
func (a *Agents) connect(questions []*question) error {
	for _, q := range questions {
		address := q.node.APIAddr()
		if _, known := a.clients[address]; !known {
			api, conn, err := agent.Dial(address, a.dial...)
			if err != nil {
				return err
			}
			a.clients[address] = dialed{api, conn}
		}
		q.agent = a.clients[address]
	}
	return a.keep(questions)
}

// keep ends the connections that no question needs.
func (a *Agents) keep(questions []*question) (err error) {
	for address, d := range a.clients {
		if !slices.ContainsFunc(questions, func(q *question) bool { return q.agent == d }) {
			err = errors.Join(err, d.conn.Close())
			delete(a.clients, address)
		}
	}
	return err
}

// ask asks all, until ctx ends.
func ask(ctx context.Context, questions []*question) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, q := range questions {
		group.Go(func() error {
			q.answer, q.err = agent.Uses(ctx, q.agent, q.keys)
			return nil
		})
	}
	_ = group.Wait() // each question has its error
}

// note adds an agent's answer to the uses of all keys.
func (q *question) note(uses []engine.Uses) {
	for i, o := range q.answer {
		if !o.GetFound() {
			continue
		}
		u := &uses[q.index[i]]
		if u.Nodes == nil {
			u.Nodes = make(map[string]placement.Use)
		}
		u.Nodes[q.node.Name] = placement.Use{Reads: o.GetReads(), Writes: o.GetWrites()}
		u.Bytes = max(u.Bytes, int(o.GetValueBytes()))
	}
}
