package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// fault is a fault that lasts for a while.
type fault struct {
	kind    string
	hosts   []string // affected hosts; at most one fault affects a host at a time
	costs   string   // the node that may be removed from its chains; empty: none
	empties bool     // whether that node loses its state
	silent  string   // the controller that is unavailable meanwhile; empty: none
	alone   bool     // no other fault is active meanwhile: it waits for nodes, which may be cut off by one
	cut     *lab.Partition
	begin   func(ctx context.Context) error
	end     func(ctx context.Context) error
	lasts   time.Duration
	over    time.Time
}

func (f *fault) String() string {
	text := f.kind + " " + strings.Join(f.hosts, ",")
	if f.cut != nil {
		text = f.kind + " " + f.cut.String()
	}
	return text
}

const (
	// minReplaced controllers are needed for the others to be a majority.
	minReplaced = 3
	// replacePatience bounds the replacement and the removal of a controller: on a busy machine etcd copies slowly.
	replacePatience = time.Minute
)

// recipe makes faults of one kind, or none if there is no suitable host.
type recipe struct {
	kind     string
	weight   int
	shortest time.Duration // minimum duration of the fault
	longest  time.Duration
	make     func(d *driver) *fault
}

// recipes are the kinds of faults. Kinds that have exposed bugs in similar stores are more
// frequent.
var recipes = []recipe{
	{"node_kill", 6, time.Second, 8 * time.Second, (*driver).nodeKill},
	{"node_emptied", 4, 10 * time.Millisecond, 300 * time.Millisecond, (*driver).nodeEmptied},
	{"agent_kill", 4, 100 * time.Millisecond, 4 * time.Second, (*driver).agentKill},
	{"agent_pause", 3, 20 * time.Millisecond, 2 * time.Second, (*driver).agentPause},
	{"controller_kill", 2, 200 * time.Millisecond, 6 * time.Second, (*driver).controllerKill},
	{"controller_replaced", 2, 200 * time.Millisecond, 3 * time.Second, (*driver).controllerReplaced},
	{"controller_removed", 2, 200 * time.Millisecond, 2 * time.Second, (*driver).controllerRemoved},
	{"leader_kill", 4, 200 * time.Millisecond, 6 * time.Second, (*driver).leaderKill},
	{"leader_pause", 2, 50 * time.Millisecond, 3 * time.Second, (*driver).leaderPause},
	{"link_down", 3, 500 * time.Millisecond, 5 * time.Second, (*driver).linkDown},
	{"partition_node", 4, 50 * time.Millisecond, 5 * time.Second, (*driver).partitionNode},
	{"partition_one_way", 4, 50 * time.Millisecond, 5 * time.Second, (*driver).partitionOneWay},
	{"partition_control", 3, 50 * time.Millisecond, 4 * time.Second, (*driver).partitionControl},
	{"partition_data", 2, 50 * time.Millisecond, 2 * time.Second, (*driver).partitionData},
	{"partition_controller", 3, 200 * time.Millisecond, 5 * time.Second, (*driver).partitionController},
}

// Kinds lists the kinds of faults.
func Kinds() []string { return names(recipes) }

func names(of []recipe) []string {
	kinds := make([]string, len(of))
	for i, r := range of {
		kinds[i] = r.kind
	}
	return kinds
}

// invent returns the next fault, or nil.
func (d *driver) invent() *fault {
	total := 0
	for _, r := range d.recipes {
		total += r.weight
	}
	at := d.rng.IntN(total)
	i := slices.IndexFunc(d.recipes, func(r recipe) bool {
		at -= r.weight
		return at < 0
	})
	r := d.recipes[i]
	lasts := r.shortest + time.Duration(d.rng.Float64()*float64(r.longest-r.shortest))
	f := r.make(d)
	if f != nil {
		f.kind, f.lasts = r.kind, lasts
	}
	return f
}

// pick returns one of the hosts without a fault; empty if there is none.
func (d *driver) pick(hosts []string) string {
	free := slices.DeleteFunc(slices.Clone(hosts), d.struck)
	if len(free) == 0 {
		return ""
	}
	return free[d.rng.IntN(len(free))]
}

func (d *driver) nodeKill() *fault {
	node := d.pick(d.nodes)
	return &fault{
		hosts: []string{node}, costs: node, empties: true,
		begin: func(ctx context.Context) error { return d.lab.PowerOff(ctx, node) },
		end:   func(ctx context.Context) error { return d.lab.SwitchOn(ctx, node) },
	}
}

// nodeEmptied restarts a node without its state: sooner, most often, than its silence is noticed. Its host stays up.
func (d *driver) nodeEmptied() *fault {
	node := d.pick(d.nodes)
	return &fault{
		hosts: []string{node}, costs: node, empties: true,
		begin: func(ctx context.Context) error { return d.lab.KillNode(ctx, node) },
		end:   func(ctx context.Context) error { return d.lab.SwitchOn(ctx, node) },
	}
}

// controllerReplaced takes the disk of a controller, which is then replaced. The fault ends when the new one votes.
func (d *driver) controllerReplaced() *fault {
	controller := d.pick(d.controllers)
	if d.setup.Replace == nil || len(d.controllers) < minReplaced || controller == "" {
		return nil
	}
	return &fault{
		hosts: []string{controller}, silent: controller,
		begin: func(ctx context.Context) error { return d.lab.LoseDisk(ctx, controller, "--replacement") },
		end: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, replacePatience)
			defer cancel()
			if err := d.setup.Replace(ctx, d.lab, controller); err != nil {
				return err
			}
			return d.startAndVote(ctx, controller)
		},
	}
}

// controllerRemoved removes a controller from the cluster, and adds it again, with no data. Both wait until the nodes that are
// in good standing follow the change. The fault ends when the controller counts again.
func (d *driver) controllerRemoved() *fault {
	controller := d.pick(d.controllers)
	if d.setup.Remove == nil || len(d.controllers) < minReplaced || controller == "" {
		return nil
	}
	return &fault{
		hosts: []string{controller}, silent: controller, alone: true,
		begin: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, replacePatience)
			defer cancel()
			if err := d.setup.Remove(ctx, d.lab, controller); err != nil {
				return err
			}
			return d.lab.LoseDisk(ctx, controller, "--replacement")
		},
		end: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, replacePatience)
			defer cancel()
			if err := d.setup.Add(ctx, d.lab, controller); err != nil {
				return err
			}
			return d.startAndVote(ctx, controller)
		},
	}
}

// startAndVote starts a controller without data, and waits until all controllers vote and count.
func (d *driver) startAndVote(ctx context.Context, controller string) error {
	if err := d.lab.SwitchOn(ctx, controller); err != nil {
		return err
	}
	for {
		votes, err := d.setup.Votes(ctx, d.lab)
		if votes {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(look):
		}
	}
}

func (d *driver) agentKill() *fault {
	node := d.pick(d.nodes)
	return &fault{
		hosts: []string{node}, costs: node,
		begin: func(ctx context.Context) error { return d.lab.KillAgent(ctx, node) },
		end:   func(ctx context.Context) error { return d.lab.SwitchOn(ctx, node) },
	}
}

func (d *driver) agentPause() *fault {
	node := d.pick(d.nodes)
	return &fault{
		hosts: []string{node}, costs: node,
		begin: func(context.Context) error { return d.stops.stop(node) },
		end:   func(context.Context) error { return d.stops.release(node) },
	}
}

func (d *driver) controllerKill() *fault { return d.killed(d.pick(d.controllers)) }

func (d *driver) leaderKill() *fault { return d.killed(d.pick([]string{d.leading.Host})) }

func (d *driver) killed(controller string) *fault {
	return &fault{
		hosts: []string{controller}, silent: controller,
		begin: func(ctx context.Context) error { return d.lab.KillAgent(ctx, controller) },
		end:   func(ctx context.Context) error { return d.lab.SwitchOn(ctx, controller) },
	}
}

func (d *driver) leaderPause() *fault {
	leader := d.pick([]string{d.leading.Host})
	return &fault{
		hosts: []string{leader}, silent: leader,
		begin: func(context.Context) error { return d.stops.stop(leader) },
		end:   func(context.Context) error { return d.stops.release(leader) },
	}
}

// linkDown takes down one of a host's two links, so that the other carries all traffic.
func (d *driver) linkDown() *fault {
	host := d.pick(slices.Concat(d.nodes, d.controllers))
	if host == "" {
		return nil
	}
	peers := d.lab.Plan.Peers(host)
	link := lab.Link{A: host, B: peers[d.rng.IntN(len(peers))]}.String()
	f := &fault{
		hosts: []string{host},
		begin: func(ctx context.Context) error { return d.lab.SetLink(ctx, link, false) },
		end:   func(ctx context.Context) error { return d.lab.SetLink(ctx, link, true) },
	}
	if slices.Contains(d.nodes, host) {
		f.costs = host
	} else {
		f.silent = host
	}
	return f
}

// partitionNode separates a node from all other hosts.
func (d *driver) partitionNode() *fault {
	node := d.pick(d.nodes)
	return d.parted(&fault{hosts: []string{node}, costs: node, cut: &lab.Partition{
		Groups: [][]string{{node}, d.others(node)},
	}})
}

// partitionOneWay loses all packets from a node but none to it, or the reverse.
func (d *driver) partitionOneWay() *fault {
	node := d.pick(d.nodes)
	groups := [][]string{{node}, d.others(node)}
	if d.rng.IntN(2) == 0 {
		slices.Reverse(groups)
	}
	return d.parted(&fault{hosts: []string{node}, costs: node, cut: &lab.Partition{Groups: groups, OneWay: true}})
}

// partitionControl separates a node's agent from the controllers. Its data plane stays connected.
func (d *driver) partitionControl() *fault {
	node := d.pick(d.nodes)
	return d.parted(&fault{hosts: []string{node}, costs: node, cut: &lab.Partition{
		Groups: [][]string{{node}, d.others(node)}, Traffic: lab.ControlTraffic,
	}})
}

// partitionData blocks requests, or a chain's messages, between two hosts that remain connected to
// the controllers.
func (d *driver) partitionData() *fault {
	one := d.pick(d.nodes)
	rest := append(slices.DeleteFunc(slices.Clone(d.nodes), func(name string) bool { return name == one }), lab.RootHost)
	other := d.pick(rest)
	if other == "" {
		return nil
	}
	return d.parted(&fault{hosts: []string{one, other}, cut: &lab.Partition{
		Groups: [][]string{{one}, {other}}, Traffic: lab.DataTraffic, OneWay: d.rng.IntN(2) == 0,
	}})
}

// partitionController separates a controller from all hosts, or from the other controllers only.
func (d *driver) partitionController() *fault {
	controller := d.pick(d.controllers)
	groups := [][]string{{controller}, d.others(controller)}
	if d.rng.IntN(2) == 0 {
		groups[1] = slices.DeleteFunc(slices.Clone(d.controllers), func(name string) bool { return name == controller })
	}
	oneWay := d.rng.IntN(3) == 0
	if oneWay && d.rng.IntN(2) == 0 {
		slices.Reverse(groups)
	}
	return d.parted(&fault{hosts: []string{controller}, silent: controller,
		cut: &lab.Partition{Groups: groups, OneWay: oneWay}})
}

// others returns all hosts with agents or controllers except one.
func (d *driver) others(name string) []string {
	all := append(slices.Concat(d.nodes, d.controllers), lab.RootHost)
	return slices.DeleteFunc(all, func(other string) bool { return other == name })
}

// parted makes a fault of a partition. All partitions in force are set together.
func (d *driver) parted(f *fault) *fault {
	f.begin, f.end = d.setPartitions, d.setPartitions
	return f
}

// setPartitions applies the partitions of all active faults.
func (d *driver) setPartitions(ctx context.Context) error {
	var cuts []lab.Partition
	for _, f := range d.active {
		if f.cut != nil {
			cuts = append(cuts, *f.cut)
		}
	}
	return d.lab.Partition(ctx, cuts...)
}

// must adds the fault to an error of the lab.
func (f *fault) must(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %v: %w", what, f, err)
	}
	return nil
}
