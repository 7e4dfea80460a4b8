package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Lab is a lab that is up. Its methods may be called by one goroutine at a time, except Do, Agent, AgentAlive, Pause and
// Resume.
type Lab struct {
	Name    string
	Plan    *Plan
	options Options
	state   *state
	running sync.Mutex // guards state, and its Agents, for those who only look at processes
	down    map[Link]bool
	exits   chan string // names of nodes whose agents, started by this process, have ended
}

// AgentExits tells the names of nodes whose agents have ended, of those that this process started.
func (l *Lab) AgentExits() <-chan string { return l.exits }

// ErrNotUp says that there is nothing by this name.
var ErrNotUp = errors.New("is not up: bring it up with `netcraq lab up`")

// ErrExists says that the name is in use.
var ErrExists = errors.New("is up already")

// ErrRemains says that parts of a lab are left of an `up` or `down` that was interrupted.
var ErrRemains = errors.New("is only partly there, left by a command that was killed")

// Open finds a lab that is up.
func Open(name string) (*Lab, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("%q cannot be a lab's name", name)
	}
	s, err := readState(name)
	if errors.Is(err, os.ErrNotExist) {
		if len(namespaces(name)) > 0 {
			return nil, remains(name)
		}
		err := fmt.Errorf("lab %q %w", name, ErrNotUp)
		if others := Names(); len(others) > 0 {
			err = fmt.Errorf("%w, or name another with --name: %s", err, strings.Join(others, ", "))
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("lab %q %w (%v): remove it with `netcraq lab down --name %s`", name, ErrRemains, err, name)
	}
	if !s.Up && s.Maker.Alive() {
		return nil, fmt.Errorf("lab %q is just being brought up or down by process %d: try again in a moment", name, s.Maker.PID)
	}
	l, err := newLab(s)
	if err != nil {
		return nil, err
	}
	if !s.Up || !l.complete() || s.Owned && !s.Maker.Alive() {
		return nil, remains(name)
	}
	return l, nil
}

func remains(name string) error {
	return fmt.Errorf("lab %q %w: remove it with `netcraq lab down --name %s`", name, ErrRemains, name)
}

func newLab(s *state) (*Lab, error) {
	plan, err := NewPlan(s.Options, s.Octet)
	if err != nil {
		return nil, err
	}
	return &Lab{Name: s.Options.Name, Plan: plan, options: s.Options, state: s, down: downLinks(s),
		exits: make(chan string, s.Options.Nodes)}, nil
}

func downLinks(s *state) map[Link]bool {
	down := map[Link]bool{}
	for _, link := range s.Down {
		down[link] = true
	}
	return down
}

// complete reports whether every namespace is there.
func (l *Lab) complete() bool {
	hosts := l.Plan.Hosts
	if !l.options.Direct {
		hosts = append(slices.Clone(hosts), Host{Name: wiresHost})
	}
	there := namespaces(l.Name)
	for _, h := range hosts {
		if path := nsPath(l.Name, h.Name); path != "" && !slices.Contains(there, path) {
			return false
		}
	}
	return true
}

// change runs a change of the lab with the labs locked, on the state as it is then.
func (l *Lab) change(ctx context.Context, f func(*state) error) error {
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := readState(l.Name)
	if err != nil {
		return fmt.Errorf("lab %q: %w", l.Name, err)
	}
	l.running.Lock()
	l.state = s
	l.running.Unlock()
	return f(s)
}

// Options returns what the lab was made with; functions are not among it.
func (l *Lab) Options() Options { return l.options }

// Owner returns the process that keeps the lab up, if there is one: the lab ends with it.
func (l *Lab) Owner() (Process, bool) { return l.state.Maker, l.state.Owned }

// Host finds a host by name.
func (l *Lab) Host(name string) (Host, error) {
	h, ok := l.Plan.Host(name)
	if !ok {
		var names []string
		for _, h := range l.Plan.Hosts {
			names = append(names, h.Name)
		}
		return h, fmt.Errorf("lab %q has no host %q; hosts are %s", l.Name, name, strings.Join(names, ", "))
	}
	return h, nil
}

// Cluster is the static configuration of the lab's nodes; a managed lab has none, see [Lab.Controllers].
func (l *Lab) Cluster() *topology.Cluster { return l.Plan.Cluster(l.options.Shards) }

// Controllers are the TCP addresses of a managed lab's controllers.
func (l *Lab) Controllers() []string { return l.Plan.ManagedCluster().Controllers }

// clusterOf is what the cluster file says.
func (l *Lab) clusterOf() *topology.Cluster {
	if l.options.Managed() {
		return l.Plan.ManagedCluster()
	}
	return l.Cluster()
}

// ClusterFile is where clients find the nodes, or the controllers that know them.
func (l *Lab) ClusterFile() string { return clusterFile(l.Name) }

// Published reports whether commands on this machine find the lab's nodes without being told where they are.
func (l *Lab) Published() bool { return topology.Published(l.options.Publish, l.ClusterFile()) }

// LogFile is where the output of a node's agent is kept.
func (l *Lab) LogFile(host string) string { return logFile(l.Name, host) }

// DataDir is a directory of a host's own, such as for a controller's state. It goes with the lab.
func (l *Lab) DataDir(host string) string { return dataDir(l.Name, host) }

// PinDir is the directory on the BPF file system that a node's agent may pin things in.
func (l *Lab) PinDir(host string) string { return pinDir(l.Name, host) }

// ChainRole is a node's place in the chain; in a managed lab it is not the lab's to know.
func (l *Lab) ChainRole(host string) string {
	if l.options.Managed() {
		return ""
	}
	return topology.RoleIn(l.Cluster().Chain(0), host)
}

// Ports returns the network devices of a host: where XDP belongs.
func (l *Lab) Ports(host string) []string {
	var ports []string
	for _, peer := range l.Plan.Peers(host) {
		ports = append(ports, l.device(host, peer))
	}
	return ports
}

// NamespaceFile is where a host's network namespace can be entered; empty for the machine's own.
func (l *Lab) NamespaceFile(host string) string { return nsPath(l.Name, host) }

// Do runs f on a thread inside a host's namespace: sockets that f makes belong to that host, for as long as they live.
func (l *Lab) Do(host string, f func() error) error {
	if _, err := l.Host(host); err != nil {
		return err
	}
	return inNamespace(nsPath(l.Name, host), f)
}

// Command prepares a command to run inside a host, to be started by [Lab.Start].
func (l *Lab) Command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = l.environment()
	return cmd
}

// Start starts a command inside a host.
func (l *Lab) Start(host string, cmd *exec.Cmd) error { return l.Do(host, cmd.Start) }

// environment lets commands in the lab find its nodes, and the programs beside this one.
func (l *Lab) environment() []string {
	path := os.Getenv("PATH")
	if self, err := os.Executable(); err == nil {
		path = filepath.Dir(self) + string(filepath.ListSeparator) + path
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, topology.PathVariable+"=")
	})
	return append(env, "PATH="+path, topology.PathVariable+"="+l.ClusterFile())
}

// Exec replaces this process by a command in a host. It returns only if that fails.
func (l *Lab) Exec(host string, argv []string) error {
	if _, err := l.Host(host); err != nil {
		return err
	}
	env := l.environment()
	if err := os.Setenv("PATH", strings.TrimPrefix(env[len(env)-2], "PATH=")); err != nil { // LookPath searches this process's own
		return err
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	err = l.Do(host, func() error { return unix.Exec(program, argv, env) })
	return fmt.Errorf("run %s in %s: %w", argv[0], host, err)
}
