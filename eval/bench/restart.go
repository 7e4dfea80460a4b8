package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/wire"
)

// RestartOptions configure how agents are killed and restarted under load.
type RestartOptions struct {
	Nodes      int
	Keys       int
	ValueBytes int
	Rate       float64 // requests per second
	Kills      int     // per agent: this many under reads at its node, and as many under writes to the chain
	Agent      func(AgentOptions) []string
	Ready      string // log text of an agent that is up
	Progress   Progress
}

func (o *RestartOptions) validate() error {
	switch {
	case !(o.Rate > 0): // NaN too
		return wrongOption("--rate: more than 0, not %v", o.Rate)
	case o.Kills < 1:
		return wrongOption("--kills: at least 1, not %d", o.Kills)
	}
	return (&NodeOptions{Keys: o.Keys, ValueBytes: o.ValueBytes}).validate()
}

// AgentOptions are the values for the command line of a node's agent.
type AgentOptions struct {
	Name    string
	Cluster string // path of the cluster file
	Pin     string
	Ports   []string
	Chain   chain.Options
	Pods    netip.Addr // at which pods reach the node; invalid: none
	PodDir  string     // records of pods
}

// RestartResult counts the requests lost while agents were killed and restarted.
type RestartResult struct {
	Rows       []RestartRow `json:"rows"`
	Sent       uint64       `json:"sent"`
	Lost       uint64       `json:"lost"`
	Wrong      uint64       `json:"wrong"`
	Plane      string       `json:"plane"`
	Nodes      int          `json:"nodes"`
	Keys       int          `json:"keys"`
	ValueBytes int          `json:"value_bytes"`
	Host       Host         `json:"machine"`
}

// RestartRow is the result of one kill and restart.
type RestartRow struct {
	Node      string  `json:"node"`
	Load      string  `json:"load"` // "read" or "put"
	PerSecond float64 `json:"per_s"`
	Sent      uint64  `json:"sent"`
	Lost      uint64  `json:"lost"`
	Wrong     uint64  `json:"wrong"`
	DownMs    float64 `json:"down_ms"` // time from the kill until the next agent was up
}

// Restart kills the agent of each node of a chain on the XDP plane with SIGKILL and starts it
// again, under a fixed rate of requests. It counts every answer.
func Restart(ctx context.Context, o RestartOptions) (*RestartResult, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, hosts, err := newLinkedHosts(o.Nodes)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	fleet, err := newFleet(ctx, m, hosts, &o)
	if err != nil {
		return nil, err
	}
	keys := randomKeys(o.Keys)
	if err := fill(ctx, keys, o.ValueBytes, m.ways[0], m.genPorts()...); err != nil {
		return nil, err
	}
	r := &RestartResult{Plane: "xdp", Nodes: o.Nodes, Keys: o.Keys, ValueBytes: o.ValueBytes, Host: ThisHost()}
	for _, op := range []wire.Op{wire.OpRead, wire.OpPut} {
		for victim := range hosts {
			asked := m.ways[0]
			if op == wire.OpRead {
				asked = m.ways[victim]
			}
			load, err := newLoad(&request{op: op, valueBytes: o.ValueBytes, keys: shuffled(keys)}, asked, m.genPorts()...)
			if err != nil {
				return nil, err
			}
			err = fleet.restartUnder(ctx, load, victim, op, r)
			load.close()
			if err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// fleet holds the agents of a mesh.
type fleet struct {
	options *RestartOptions
	keepers []*thread.Thread
	argv    [][]string
	agents  []*process
	cluster *os.File
}

// newFleet starts one agent per host and waits until all are up.
func newFleet(ctx context.Context, m *mesh, hosts []*host, o *RestartOptions) (*fleet, error) {
	f := &fleet{options: o, agents: make([]*process, len(hosts))}
	m.undo.add(f.close)
	if err := f.writeCluster(m); err != nil {
		return nil, err
	}
	size := chain.Options{Shards: 1, CellBytes: max(o.ValueBytes, 8), MaxObjects: o.Keys, MaxSessions: sessions}
	for i, h := range hosts {
		k, err := newKeeper(h)
		if err != nil {
			return nil, err
		}
		f.keepers = append(f.keepers, k)
		agent := AgentOptions{Name: nodeName(i), Cluster: clusterArgument, Pin: bpfFS + "/node", Chain: size}
		for _, p := range m.portsOf(h) {
			agent.Ports = append(agent.Ports, p.name)
		}
		f.argv = append(f.argv, o.Agent(agent))
		if err := errors.Join(ctx.Err(), f.start(i)); err != nil {
			return nil, err
		}
	}
	for _, agent := range f.agents {
		if err := agent.await(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// writeCluster writes the cluster file to an unnamed file that the agents inherit.
func (f *fleet) writeCluster(m *mesh) error {
	c := topology.Cluster{Epoch: epoch, Shards: 1, Chains: [][]string{nil}}
	for i, w := range m.ways {
		c.Nodes = append(c.Nodes, topology.Node{Name: nodeName(i), Addr: w.dest})
		c.Chains[0] = append(c.Chains[0], nodeName(i))
	}
	text, err := c.Marshal()
	if err != nil {
		return err
	}
	if f.cluster, err = os.CreateTemp("", "netcraq-cluster-"); err != nil {
		return err
	}
	if err := os.Remove(f.cluster.Name()); err != nil {
		return err
	}
	_, err = f.cluster.Write(text)
	return err
}

func (f *fleet) start(i int) (err error) {
	f.agents[i], err = startProcess(f.keepers[i], f.argv[i], f.cluster, f.options.Ready)
	return err
}

func (f *fleet) close() {
	for _, agent := range f.agents {
		if agent != nil {
			agent.kill()
		}
	}
	for _, k := range f.keepers {
		k.Close()
	}
	if f.cluster != nil {
		f.cluster.Close()
	}
}

// restartUnder kills and restarts one agent Kills times, each time under load.
func (f *fleet) restartUnder(ctx context.Context, l *load, victim int, op wire.Op, r *RestartResult) error {
	for range f.options.Kills {
		replaced := make(chan replacement, 1)
		go func() { replaced <- f.replace(ctx, victim) }()
		load, replacement, err := f.keepUp(ctx, l, replaced)
		if err != nil {
			return err
		}
		row := RestartRow{
			Node: nodeName(victim), Load: op.String(), PerSecond: load.PerSecond, DownMs: replacement.down.Seconds() * 1e3,
			Sent: load.Sent, Lost: load.Lost(), Wrong: load.Answers() - load.OK,
		}
		f.options.Progress.say("agent of %s killed under %ss: %v", row.Node, row.Load, load.Counters)
		r.Rows = append(r.Rows, row)
		r.Sent, r.Lost, r.Wrong = r.Sent+row.Sent, r.Lost+row.Lost, r.Wrong+row.Wrong
	}
	return nil
}

// slice is the time between two checks for the agent's return.
const slice = 500 * time.Millisecond

// keepUp keeps the load up until one slice after the agent has been replaced.
func (f *fleet) keepUp(ctx context.Context, l *load, replaced <-chan replacement) (sum Figure,
	r replacement, err error) {
	before, err := l.counters()
	if err != nil {
		return sum, r, err
	}
	answered := 0.0
	for over := false; ; {
		figure, err := l.measure(ctx, pace{perSecond: f.options.Rate}, slice)
		if err != nil {
			return sum, r, errors.Join(err, (<-replaced).err)
		}
		sum.LoadS += figure.LoadS
		answered += figure.PerSecond * figure.LoadS
		if over {
			break
		}
		select {
		case r = <-replaced:
			over = true
		default:
		}
	}
	sum.PerSecond = answered / sum.LoadS
	sum.Counters, err = l.drainLate(before)
	return sum, r, errors.Join(err, r.err)
}

// drainLate counts from an earlier reading of the counters on. Now and then the kernel leaves packets in the ring of a veth device until
// another one comes by on the same CPU: they are late, not lost, so some more requests are sent after them.
func (l *load) drainLate(before Counters) (t Counters, err error) {
	const nudges = 20
	err = l.from.host.do(func() error {
		if err := pin(); err != nil {
			return err
		}
		for range nudges {
			after, err := l.drain(before)
			if t = after.minus(before); err != nil || t.Lost() == 0 {
				return err
			}
			if err := l.send(1, sendBatch); err != nil {
				return err
			}
		}
		return nil
	})
	return t, err
}

// replacement is the result of one agent's replacement.
type replacement struct {
	down time.Duration // time without an agent
	err  error
}

// replace kills an agent after a delay and starts another.
func (f *fleet) replace(ctx context.Context, victim int) replacement {
	if !retry.Sleep(ctx, slice/2) {
		return replacement{err: ctx.Err()}
	}
	killed := time.Now()
	f.agents[victim].kill()
	if err := f.start(victim); err != nil {
		return replacement{err: err}
	}
	err := f.agents[victim].await(ctx)
	return replacement{time.Since(killed), err}
}

// Table returns one row per kill.
func (r *RestartResult) Table() ([]string, [][]string) {
	var rows [][]string
	for _, x := range r.Rows {
		rows = append(rows, []string{
			x.Node, x.Load, count(x.PerSecond), fmt.Sprint(x.Sent), fmt.Sprint(x.Lost), fmt.Sprint(x.Wrong),
			fmt.Sprintf("%.0f", x.DownMs),
		})
	}
	return []string{"agent killed", "load", "answers/s", "requests", "lost", "wrong", "without agent, ms"}, rows
}

// Summary sums up all kills.
func (r *RestartResult) Summary() string {
	return fmt.Sprintf(
		"chain of %d, %d keys of %d bytes, plane %s: %d agents killed and restarted, %d requests, %d lost, %d wrong.\n%v",
		r.Nodes, r.Keys, r.ValueBytes, r.Plane, len(r.Rows), r.Sent, r.Lost, r.Wrong, r.Host)
}
