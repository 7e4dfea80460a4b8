package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/wire"
)

// ManagedFlags describe a lab with controllers.
type ManagedFlags struct {
	controllers, Nodes, Shards, Replicas int
	FormWith, CellBytes, Objects         int
	plane                                string
	priority                             scheduling.Class // empty: the default
	observed                             bool             // controllers serve their etcd to other clients
	upgrade                              *chaos.Upgrade   // nil: the product is that beside this program
	beat, lease, suspect, sure           time.Duration    // 0: as controllers have it by default
}

// ManagedDefaults returns the smallest lab that survives the loss of any part and can repair
// itself.
func ManagedDefaults() ManagedFlags {
	return ManagedFlags{controllers: 3, Nodes: 4, Shards: 256, Replicas: 3, CellBytes: 128,
		Objects: 100_000, plane: cli.PlaneXDP}
}

func (m *ManagedFlags) Add(f *pflag.FlagSet) {
	f.IntVar(&m.controllers, "controllers", m.controllers, "number of controllers")
	f.IntVar(&m.Nodes, "nodes", m.Nodes, "number of nodes")
	f.IntVar(&m.Replicas, "replicas", m.Replicas, "members of a chain")
	f.StringVar(&m.plane, "plane", m.plane,
		"data plane of the nodes: xdp, soft, p4, p4runtime, p4packets or v1model, or one for each node, as in xdp,p4,xdp")
	m.addTimes(f)
}

// addTimes adds the timer flags, for machines on which one core does the work of many machines.
func (m *ManagedFlags) addTimes(f *pflag.FlagSet) {
	f.DurationVar(&m.beat, "beat", 0, "interval between two heartbeats of a node (default: the controllers')")
	f.DurationVar(&m.lease, "lease", 0,
		"read lease: time for which a node may answer reads after a heartbeat (default: the controllers')")
	f.DurationVar(&m.sure, "sure", 0,
		"heartbeat timeout after which a node is removed from a chain of two (default: the controllers')")
	f.DurationVar(&m.suspect, "suspect", 0,
		"heartbeat timeout after which a node is removed from its chains (default: the controllers')")
}

// times returns the timers as arguments of a controller.
func (m *ManagedFlags) times() []string {
	var argv []string
	for _, t := range []struct {
		flag string
		time time.Duration
	}{{"--beat", m.beat}, {"--lease", m.lease}, {"--suspect", m.suspect}, {"--sure", m.sure}} {
		if t.time > 0 {
			argv = append(argv, t.flag, t.time.String())
		}
	}
	return argv
}

// Options returns the options of the lab.
func (m *ManagedFlags) Options(name string) (lab.Options, error) {
	o := lab.Options{Name: name, Topology: lab.Fabric, Nodes: m.Nodes, Controllers: m.controllers, Shards: m.Shards}
	if m.controllers < 1 {
		return o, cli.UsageError(fmt.Errorf("--controllers %d: want at least 1", m.controllers))
	}
	if m.Replicas < 1 || m.Replicas > min(m.Nodes, wire.MaxChain) {
		return o, cli.UsageError(fmt.Errorf("--replicas %d: with %d nodes a chain has 1 to %d", m.Replicas, m.Nodes,
			min(m.Nodes, wire.MaxChain)))
	}
	if err := m.setCommands(&o); err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, cli.UsageError(err)
	}
	return o, nil
}

// setCommands makes the lab run the product as `netcraq controller` and `netcraq node`.
func (m *ManagedFlags) setCommands(o *lab.Options) error {
	planes, err := planesOf(m.plane, m.Nodes)
	if err != nil {
		return err
	}
	if planes.hasSwitch() { // all nodes of a chain need the same cell length
		m.CellBytes, m.Objects = min(m.CellBytes, p4.CellBytes), min(m.Objects, p4.MaxObjects)
	}
	self, err := m.product()
	if err != nil {
		return err
	}
	flags := *m
	o.Beside = planes.beside(self)
	o.Controller = func(l *lab.Lab, h lab.Host) []string {
		var members []string
		for _, other := range l.Plan.With(lab.RoleController) {
			members = append(members, other.Name+"="+other.Addr.String())
		}
		argv := []string{self, "controller", "--name", h.Name, "--initial-cluster", strings.Join(members, ","),
			"--data-dir", l.DataDir(h.Name)}
		options := l.Options()
		argv = append(argv, "--shards", strconv.Itoa(options.Shards), "--replicas", strconv.Itoa(flags.Replicas))
		if flags.CellBytes > 0 {
			argv = append(argv, "--cell-bytes", strconv.Itoa(flags.CellBytes))
		}
		if flags.FormWith > 0 {
			argv = append(argv, "--form-with", strconv.Itoa(flags.FormWith))
		}
		if flags.observed {
			argv = append(argv, "--etcd-client", etcdOf(h))
		}
		return append(append(argv, flags.times()...), flags.class()...)
	}
	o.Agent = func(l *lab.Lab, h lab.Host) []string {
		argv := []string{self, "node", "--name", h.Name, "--addr", netip.AddrPortFrom(h.Addr, wire.Port).String(),
			"--join", strings.Join(l.Controllers(), ","), "--objects", strconv.Itoa(flags.Objects)}
		if planes.hasSwitch() {
			argv = append(argv, "--sessions", strconv.Itoa(p4.MaxSessions))
		} else {
			argv = append(argv, "--sessions", strconv.Itoa(max(flags.Objects, 100_000)))
		}
		return append(append(argv, planes.arguments(l, h)...), flags.class()...)
	}
	return nil
}

// class returns the scheduling class as arguments of a node or a controller.
func (m *ManagedFlags) class() []string {
	if m.priority == "" {
		return nil
	}
	return []string{"--priority", m.priority.String()}
}

// etcdClientAbove is the offset from the port of a lab's controller to the client port of its etcd.
const etcdClientAbove = 2

// etcdOf returns the client URL of the etcd of a lab's controller.
func etcdOf(h lab.Host) string {
	return netip.AddrPortFrom(h.Addr, topology.ControllerPort+etcdClientAbove).String()
}

// setup returns the setup of a trial on an observed lab.
func (m *ManagedFlags) setup(o lab.Options, show *Show, logs string) chaos.Setup {
	return chaos.Setup{Lab: o, Replicas: m.Replicas, Leader: LeaderOf, Etcd: etcdOf, Replace: replaceController,
		Remove: removeController, Add: addController, Votes: allVote,
		Event: show.Event, Logs: logs, Upgrade: m.upgrade}
}

// product returns the path of the product's program.
func (m *ManagedFlags) product() (string, error) {
	if m.upgrade != nil {
		return m.upgrade.Link, nil
	}
	return cli.ProductPath()
}

// replaceController makes the place of a lab's controller free.
func replaceController(ctx context.Context, l *lab.Lab, name string) error {
	return changeControllers(ctx, l, &controllerv1.ControllersRequest{Replace: name})
}

// removeController removes a lab's controller.
func removeController(ctx context.Context, l *lab.Lab, name string) error {
	return changeControllers(ctx, l, &controllerv1.ControllersRequest{Remove: name})
}

// addController adds a lab's controller.
func addController(ctx context.Context, l *lab.Lab, name string) error {
	h, ok := l.Plan.Host(name)
	if !ok {
		return fmt.Errorf("the lab has no controller %s", name)
	}
	one, err := cli.NewController(name, netip.AddrPortFrom(h.Addr, topology.ControllerPort).String())
	if err != nil {
		return err
	}
	return changeControllers(ctx, l, &controllerv1.ControllersRequest{
		Add: &controllerv1.ControllerSpec{Name: one.Name, Address: one.Address, Peer: one.Peer},
	})
}

// changeControllers asks until a change is accepted. etcd refuses for a few seconds after other members were away.
func changeControllers(ctx context.Context, l *lab.Lab, request *controllerv1.ControllersRequest) error {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	for {
		_, err := leader.Controllers(ctx, request)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}

// askAgain is the pause after a leader refused to change the controllers.
const askAgain = 200 * time.Millisecond

// allVote reports whether all controllers of a lab vote.
func allVote(ctx context.Context, l *lab.Lab) (bool, error) {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	out, err := leader.Controllers(ctx, &controllerv1.ControllersRequest{})
	return err == nil && len(out.GetMembers()) == len(l.Plan.With(lab.RoleController)) && admin.AllVote(out), err
}

// snapshotOf asks a lab's controllers for the present status.
func snapshotOf(ctx context.Context, l *lab.Lab) (*admin.Snapshot, error) {
	leader := admin.NewLeader(l.Controllers(), (*security.Identity)(nil).DialOption())
	defer leader.Close()
	return leader.Snapshot(ctx)
}

// LeaderOf asks a lab's controllers for the leader.
func LeaderOf(ctx context.Context, l *lab.Lab) (chaos.Leading, error) {
	s, err := snapshotOf(ctx, l)
	if err != nil {
		return chaos.Leading{}, err
	}
	for _, h := range l.Plan.With(lab.RoleController) {
		if strings.HasPrefix(s.Leader, h.Addr.String()+":") {
			return chaos.Leading{Host: h.Name, Change: s.Change, Copied: s.CopiedBytes,
				Whole: int(s.Shards.FullyReplicated)}, nil
		}
	}
	return chaos.Leading{}, fmt.Errorf("the leader, %s, is no controller of the lab", s.Leader)
}
