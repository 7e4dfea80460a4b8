package agent

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/metrics"
	"github.com/netcraq/netcraq/wire"
)

// Metrics of a node. All are read at a scrape from what the plane and the agent have in any case.
var (
	nodeInfo     = metrics.Gauge("netcraq_node_info", "1, with the node's data plane in the labels.", "name", "addr", "plane", "mode")
	messageCount = metrics.Counter("netcraq_node_messages_total", "Messages received, by what became of them.", "op", "outcome")
	readCount    = metrics.Counter("netcraq_node_reads_total", "Reads answered here, those of absent keys too.")
	writeCount   = metrics.Counter("netcraq_node_writes_total",
		"Versions of objects applied here, of the node's own ordering or of another's.")
	entryGauge = metrics.Gauge("netcraq_node_table_entries", "Entries that are taken in a table.", "table")
	limitGauge = metrics.Gauge("netcraq_node_table_limit", "Entries that a table can hold.", "table")
	tableBytes = metrics.Gauge("netcraq_node_table_bytes", "Memory of the tables, as allocated.")
	roleGauge  = metrics.Gauge("netcraq_node_shards",
		"Shards in whose chain the node is, by its place there: single is the whole chain.", "role", "state")
	waitingGauge = metrics.Gauge("netcraq_node_awaited_nodes", "Nodes that have to answer before this one serves.")
	resendCount  = metrics.Counter("netcraq_node_resync_messages_total",
		"Messages sent to make objects clean that stayed dirty.", "op")
	forgottenCount = metrics.Counter("netcraq_node_sessions_forgotten_total", "Sessions forgotten because they rested.")
	copyCount      = metrics.Counter("netcraq_node_copies_total", "Copies of shards to this node that ended.", "result")
	copiedCount    = metrics.Counter("netcraq_node_copied_objects_total", "Objects copied to this node.")
	copyingGauge   = metrics.Gauge("netcraq_node_copying_shards", "Shards that are being copied to this node.")
	wipingGauge    = metrics.Gauge("netcraq_node_wiping_shards", "Shards that the node left and still deletes.")
	leaseGauge     = metrics.Gauge("netcraq_node_lease_remaining_seconds",
		"Time for which the node may answer reads; not positive: it may not.")
	streamGauge = metrics.Gauge("netcraq_node_controller_connected",
		"1 if the node has a membership stream to the controller.", "controller")
	refusedGauge = metrics.Gauge("netcraq_node_order_refused", "1 if the node cannot apply the controllers' newest order.")
	portGauge    = metrics.Gauge("netcraq_node_port_attached", "1 if the data plane answers on the port.", "port")
	linkGauge    = metrics.Gauge("netcraq_node_port_link_up", "1 if the port has a link.", "port")
	troubleGauge = metrics.Gauge("netcraq_node_ports_in_trouble",
		"1 if the data plane does not answer on all the interfaces that it should.")
)

// results are how copies of shards end.
const (
	copyDone = iota
	copyFailed
	copyFull
	copyResults
)

var copyResultNames = [copyResults]string{"done", "failed", "full"}

// resendOps are the messages that resync sends.
var resendOps = []wire.Op{wire.OpUpdate, wire.OpProbe}

// copyTally counts copies of shards to this node.
type copyTally struct {
	ended   [copyResults]atomic.Uint64
	objects atomic.Uint64
}

// portLister is a plane that knows the interfaces on which it answers.
type portLister interface{ Ports() []dataplane.Port }

// Metrics returns a registry with the node's metrics.
func (a *Agent) Metrics() *prometheus.Registry {
	own := []prometheus.Collector{
		metrics.Collect(a.readPlane, nodeInfo, messageCount, readCount, writeCount, entryGauge, limitGauge, tableBytes, roleGauge),
		metrics.Collect(a.readTally, waitingGauge, resendCount, forgottenCount),
	}
	if a.membership != nil {
		own = append(own, metrics.Collect(a.membership.readMetrics,
			copyCount, copiedCount, copyingGauge, wipingGauge, leaseGauge, streamGauge, refusedGauge))
	}
	if ports, ok := a.options.Plane.(portLister); ok {
		own = append(own, metrics.Collect(func(v metrics.Values) {
			v.Is(troubleGauge, a.options.Plane.Info().PortTrouble != "")
			for _, p := range ports.Ports() {
				v.Is(portGauge, p.Attached, p.Name)
				v.Is(linkGauge, p.Up, p.Name)
			}
		}, portGauge, linkGauge, troubleGauge))
	}
	return metrics.New(own...)
}

func (a *Agent) readPlane(v metrics.Values) {
	plane := a.options.Plane
	info := plane.Info()
	v.Set(nodeInfo, 1, a.options.Name, info.Addr.String(), info.Plane, info.Mode)
	if counters, err := plane.Counters(); err != nil {
		v.Fail(messageCount, err)
	} else {
		counters[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredClean}] += 0 // is there before the first message
		for c, n := range counters {
			v.Set(messageCount, float64(n), opName(c.Op), c.Outcome.String())
		}
	}
	if loads, err := plane.Loads(); err != nil {
		v.Fail(readCount, err)
	} else {
		var sum dataplane.ShardLoad
		for i := range loads {
			sum.Reads, sum.Writes = sum.Reads+loads[i].Reads, sum.Writes+loads[i].Writes
		}
		v.Set(readCount, float64(sum.Reads))
		v.Set(writeCount, float64(sum.Writes))
	}
	if usage, err := plane.Usage(); err != nil {
		v.Fail(entryGauge, err)
	} else {
		v.Set(entryGauge, float64(usage.Objects), "objects")
		v.Set(entryGauge, float64(usage.Sessions), "sessions")
	}
	if memory, err := plane.Memory(); err != nil {
		v.Fail(tableBytes, err)
	} else {
		v.Set(tableBytes, float64(memory))
	}
	v.Set(limitGauge, float64(info.Options.MaxObjects), "objects")
	v.Set(limitGauge, float64(info.Options.MaxSessions), "sessions")
	readRoles(v, plane)
}

// place is what a node is for a shard.
type place struct{ role, state string }

// readRoles counts the node's shards by its place in their chains.
func readRoles(v metrics.Values, plane dataplane.Plane) {
	places := make(map[place]int)
	for _, role := range []string{"single", "head", "replica", "tail", "learner"} {
		for _, state := range []chain.State{chain.Active, chain.Frozen} {
			places[place{role, state.String()}] = 0
		}
	}
	for shard := range plane.Info().Options.Shards {
		config, err := plane.Config(uint16(shard))
		if err != nil {
			v.Fail(roleGauge, err)
			return
		}
		if config.State != chain.None {
			places[place{roleOf(&config), config.State.String()}]++
		}
	}
	for p, n := range places {
		v.Set(roleGauge, float64(n), p.role, p.state)
	}
}

// roleOf names a node's place in a chain.
func roleOf(c *chain.ShardConfig) string {
	switch {
	case c.Learner:
		return "learner"
	case c.Head() && c.Tail():
		return "single"
	case c.Head():
		return "head"
	case c.Tail():
		return "tail"
	}
	return "replica"
}

func (a *Agent) readTally(v metrics.Values) {
	v.Set(waitingGauge, float64(len(a.formation.names())))
	for _, op := range resendOps {
		v.Set(resendCount, float64(a.resyncer.sent[op].Load()), op.String())
	}
	v.Set(forgottenCount, float64(a.sessions.forgotten.Load()))
}

// readMetrics reports a node's part in a cluster that controllers run.
func (m *membership) readMetrics(v metrics.Values) {
	for result, name := range copyResultNames {
		v.Set(copyCount, float64(m.copied.ended[result].Load()), name)
	}
	v.Set(copiedCount, float64(m.copied.objects.Load()))
	status, copying := m.status.Load(), 0
	for _, c := range status.Copies {
		if !c.Complete {
			copying++
		}
	}
	v.Set(copyingGauge, float64(copying))
	v.Set(wipingGauge, float64(status.Wiping))
	v.Is(refusedGauge, status.Refused != "")
	v.Set(leaseGauge, m.leaseLeft().Seconds())
	for _, l := range m.allLinks() {
		v.Is(streamGauge, l.welcomedBy() != "", l.address)
	}
}
