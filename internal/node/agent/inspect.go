package agent

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/wire"
)

// Report describes a node, as its agent reports it. Error alone is set if the agent did not answer.
type Report struct {
	Name        string       `json:"name"`
	API         string       `json:"api"`
	Error       string       `json:"error,omitempty"`
	Version     string       `json:"version,omitempty"` // of the program; empty: it names none
	Addr        string       `json:"addr,omitempty"`
	Plane       string       `json:"plane,omitempty"`
	Mode        string       `json:"mode,omitempty"`
	Why         string       `json:"why,omitempty"`
	PortTrouble string       `json:"port_trouble,omitempty"` // why it does not answer on all its ports
	Clones      bool         `json:"clones"`
	CellBytes   uint32       `json:"cell_bytes,omitempty"`
	Objects     uint64       `json:"objects"`
	MaxObjects  uint64       `json:"max_objects"`
	Sessions    uint64       `json:"sessions"`
	MaxSessions uint64       `json:"max_sessions"`
	MemoryBytes uint64       `json:"memory_bytes"`
	Chains      []Chain      `json:"chains"`
	Counters    []Count      `json:"counters"`
	Object      *ObjectState `json:"object,omitempty"`
	Membership  *Membership  `json:"membership,omitempty"`
	WaitingFor  []string     `json:"waiting_for,omitempty"` // nodes that have to answer before this one serves
}

// Membership is the node's part in a cluster that controllers run.
type Membership struct {
	Cluster     string         `json:"cluster"`
	Node        uint32         `json:"node"`
	LeaseLeftMS float64        `json:"lease_left_ms"` // not positive: it answers no reads
	Term        uint64         `json:"term"`
	Refused     string         `json:"refused,omitempty"` // why it cannot apply the last order
	Wiping      uint32         `json:"wiping"`            // shards that it left and still deletes
	Controllers []StreamStatus `json:"controllers"`
	Copies      []Copy         `json:"copies"`
}

// StreamStatus describes the membership stream from a node to a controller.
type StreamStatus struct {
	Address string `json:"address"`
	Trouble string `json:"trouble,omitempty"` // why the stream is not open; empty: it is
}

// Copy is how far the copy of a shard to the node has come.
type Copy struct {
	Shard    uint32 `json:"shard"`
	Epoch    uint32 `json:"epoch"`
	Objects  uint64 `json:"objects"`
	Bytes    uint64 `json:"bytes"`
	Complete bool   `json:"complete"`
}

// Chain is one chain that the node is in, and its shards.
type Chain struct {
	Epoch   uint32   `json:"epoch"`
	State   string   `json:"state"`
	Learner bool     `json:"learner,omitempty"`
	Members []string `json:"members"`
	Shards  []uint32 `json:"shards"`
}

// Count is the number of messages of an op that had an outcome.
type Count struct {
	Op       string `json:"op"`
	Outcome  string `json:"outcome"`
	Messages uint64 `json:"messages"`
}

// ObjectState is one object at one node.
type ObjectState struct {
	Found     bool   `json:"found"`
	Version   uint64 `json:"version"`
	Committed uint64 `json:"committed"`
	Clean     bool   `json:"clean"`
	Tombstone bool   `json:"tombstone"`
	Value     []byte `json:"value"`
	Reads     uint64 `json:"reads"`
	Writes    uint64 `json:"writes"`
}

// Target is an agent to ask. Name and Addr, of the data plane, may be unknown.
type Target struct{ Name, API, Addr string }

// Targets returns the agents of nodes.
func Targets(nodes []topology.Node) []Target {
	targets := make([]Target, len(nodes))
	for i, n := range nodes {
		targets[i] = Target{Name: n.Name, API: n.APIAddr(), Addr: n.Addr.String()}
	}
	return targets
}

// Inspect asks several agents at once; key, if not empty, is an object to show. The reports are in the order of
// the targets.
func Inspect(ctx context.Context, targets []Target, key []byte, dial ...grpc.DialOption) []*Report {
	reports := make([]*Report, len(targets))
	var group sync.WaitGroup
	for i, target := range targets {
		group.Go(func() {
			report, err := inspect(ctx, target, key, dial)
			if err != nil {
				report = &Report{Name: target.Name, API: target.API, Addr: target.Addr, Error: callerror.Text(err)}
			}
			reports[i] = report
		})
	}
	group.Wait()
	return reports
}

// Ways are the ways from a node to the other members of its chains. Error alone is set if the agent did not say.
type Ways struct {
	Name   string
	Error  string
	Others []Way
}

// Way is the way to one data plane.
type Way struct {
	Addr    string
	Answers bool
}

// Reach asks agents which of the other members of their chains answer them. The results are in the order of the
// targets.
func Reach(ctx context.Context, targets []Target, dial ...grpc.DialOption) []Ways {
	all := make([]Ways, len(targets))
	var group sync.WaitGroup
	for i, target := range targets {
		group.Go(func() {
			all[i].Name = target.Name
			answer, err := reach(ctx, target.API, dial)
			if err != nil {
				all[i].Error = callerror.Text(err)
			}
			for _, w := range answer.GetWays() {
				all[i].Others = append(all[i].Others, Way{w.GetAddr(), w.GetAnswers()})
			}
		})
	}
	group.Wait()
	return all
}

func reach(ctx context.Context, api string, dial []grpc.DialOption) (*agentv1.ReachResponse, error) {
	client, conn, err := Dial(api, dial...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return client.Reach(ctx, &agentv1.ReachRequest{})
}

// MetricsPage asks an agent for its node's metrics.
func MetricsPage(ctx context.Context, api string, dial ...grpc.DialOption) ([]byte, error) {
	client, conn, err := Dial(api, dial...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := client.Metrics(ctx, &agentv1.MetricsRequest{})
	return answer.GetPage(), err
}

func inspect(ctx context.Context, target Target, key []byte, dial []grpc.DialOption) (*Report, error) {
	client, conn, err := Dial(target.API, dial...)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	info, err := client.Info(ctx, &agentv1.InfoRequest{})
	if err != nil {
		return nil, err
	}
	usage, err := client.Usage(ctx, &agentv1.UsageRequest{})
	if err != nil {
		return nil, err
	}
	shards, err := client.Shards(ctx, &agentv1.ShardsRequest{})
	if err != nil {
		return nil, err
	}
	counters, err := client.Counters(ctx, &agentv1.CountersRequest{})
	if err != nil {
		return nil, err
	}
	r := &Report{
		Name: info.Name, API: target.API, Addr: info.Addr, Plane: info.Plane, Mode: info.Mode, Why: info.Why,
		PortTrouble: info.PortTrouble, Version: info.Version, Clones: info.Clones,
		CellBytes: info.CellBytes, MaxObjects: info.MaxObjects, MaxSessions: info.MaxSessions,
		Objects: usage.Objects, Sessions: usage.Sessions, MemoryBytes: usage.MemoryBytes,
		Chains: chainsOf(shards), Counters: countsOf(counters), Membership: membershipOf(info.GetMembership()),
		WaitingFor: info.GetWaitingFor(),
	}
	if len(key) == 0 {
		return r, nil
	}
	o, err := client.Object(ctx, &agentv1.ObjectRequest{Key: key})
	if err != nil {
		return nil, err
	}
	r.Object = &ObjectState{
		Found: o.Found, Version: o.Version, Committed: o.Committed, Clean: o.Version == o.Committed,
		Tombstone: o.Tombstone, Value: o.Value, Reads: o.Reads, Writes: o.Writes,
	}
	return r, nil
}

func membershipOf(in *agentv1.Membership) *Membership {
	if in == nil {
		return nil
	}
	const usPerMS = 1000
	out := &Membership{
		Cluster: in.Cluster, Node: in.Node, LeaseLeftMS: float64(in.LeaseLeftUs) / usPerMS, Term: in.Term, Refused: in.Refused,
		Wiping: in.Wiping, Controllers: []StreamStatus{}, Copies: []Copy{},
	}
	for _, c := range in.Controllers {
		out.Controllers = append(out.Controllers, StreamStatus{c.Address, c.Trouble})
	}
	for _, c := range in.Copies {
		out.Copies = append(out.Copies, Copy{c.Shard, c.Epoch, c.Objects, c.Bytes, c.Complete})
	}
	return out
}

func chainsOf(in *agentv1.ShardsResponse) []Chain {
	chains := make([]Chain, 0, len(in.GetConfigs()))
	for _, c := range in.GetConfigs() {
		state := fmt.Sprint(c.GetState())
		if s, err := stateOf(c.GetState()); err == nil {
			state = s.String()
		}
		chains = append(chains, Chain{c.GetEpoch(), state, c.GetLearner(), c.GetMembers(), c.GetShards()})
	}
	return chains
}

func countsOf(in *agentv1.CountersResponse) []Count {
	counts := make([]Count, 0, len(in.GetCounters()))
	for _, c := range in.GetCounters() {
		counts = append(counts, Count{opName(wire.Op(c.GetOp())), wire.Outcome(c.GetOutcome()).String(), c.GetMessages()})
	}
	return counts
}

// opName names the op of a count; that of messages that could not be read is 0.
func opName(op wire.Op) string {
	if op == 0 {
		return "unreadable"
	}
	return op.String()
}
