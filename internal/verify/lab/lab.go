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

// Lab is a lab that is up. Its methods must not be called concurrently, except Do, Agent,
// AgentAlive, Pause and Resume.
type Lab struct {
	Name    string
	Plan    *Plan
	options Options
	state   *state
	running sync.Mutex       // guards state.Agents and logged for the methods that may run concurrently
	logged  map[string]int64 // length of a host's log when its process was started
	down    map[Link]bool
	exits   chan string // names of nodes whose agents, started by this process, have ended
}

// AgentExits returns a channel of the names of nodes whose agents have ended. It covers agents
// started by this process.
func (l *Lab) AgentExits() <-chan string { return l.exits }

// ErrNotUp reports that no lab has the name.
var ErrNotUp = errors.New("is not up: bring it up with `netcraq lab up`")

// ErrExists reports that the name is in use.
var ErrExists = errors.New("is up already")

// ErrRemains reports parts of a lab left by an interrupted `up` or `down`.
var ErrRemains = errors.New("is only partly there, left by a command that was killed")

// Open opens a lab that is up.
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
		return nil, fmt.Errorf("lab %q %w (%w): remove it with `netcraq lab down --name %s`", name, ErrRemains, err, name)
	}
	if !s.Up && s.Maker.Alive() {
		return nil, fmt.Errorf("lab %q is being brought up or down by process %d: try again later", name, s.Maker.PID)
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
	return &Lab{Name: s.Options.Name, Plan: plan, options: s.Options, state: s, down: downLinks(s), logged: make(map[string]int64),
		exits: make(chan string, s.Options.Nodes)}, nil
}

func downLinks(s *state) map[Link]bool {
	down := map[Link]bool{}
	for _, link := range s.Down {
		down[link] = true
	}
	return down
}

// complete reports whether all namespaces exist.
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

// change takes the lock of all labs and changes the lab, starting from its current state file.
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

// Options returns the options of Up, without the functions.
func (l *Lab) Options() Options { return l.options }

// Owner returns the process that owns the lab, if any: the lab ends with it.
func (l *Lab) Owner() (Process, bool) { return l.state.Maker, l.state.Owned }

// Host returns a host by name.
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

// Cluster returns the static configuration of the lab's nodes. A managed lab has none: see
// [Lab.Controllers].
func (l *Lab) Cluster() *topology.Cluster { return l.Plan.Cluster(l.options.Shards) }

// Controllers returns the TCP addresses of a managed lab's controllers.
func (l *Lab) Controllers() []string { return l.Plan.ManagedCluster().Controllers }

// clusterOf returns the content of the cluster file.
func (l *Lab) clusterOf() *topology.Cluster {
	if l.options.Managed() {
		return l.Plan.ManagedCluster()
	}
	return l.Cluster()
}

// ClusterFile returns the path of the file with the addresses of the nodes, or of the controllers.
func (l *Lab) ClusterFile() string { return clusterFile(l.Name) }

// Published reports whether commands on this machine find the lab's nodes by default.
func (l *Lab) Published() bool { return topology.Published(l.options.Publish, l.ClusterFile()) }

// LogFile returns the path of the log of a node's agent.
func (l *Lab) LogFile(host string) string { return logFile(l.Name, host) }

// DataDir returns a host's data directory, such as for a controller's state. It is removed with the
// lab.
func (l *Lab) DataDir(host string) string { return dataDir(l.Name, host) }

// PinsDir returns the directory of the directories that [Lab.PinDir] returns.
func (l *Lab) PinsDir() string { return pinDir(l.Name, "") }

// PinDir returns the directory on the BPF file system for the pins of a node's agent.
func (l *Lab) PinDir(host string) string { return pinDir(l.Name, host) }

// ChainRole returns a node's position in the chain. It is empty in a managed lab, where controllers
// decide it.
func (l *Lab) ChainRole(host string) string {
	if l.options.Managed() {
		return ""
	}
	return topology.RoleIn(l.Cluster().Chain(0), host)
}

// Ports returns the network devices of a host, on which XDP programs run.
func (l *Lab) Ports(host string) []string {
	var ports []string
	for _, peer := range l.Plan.Peers(host) {
		ports = append(ports, l.device(host, peer))
	}
	return ports
}

// NamespaceFile returns the path of a host's network namespace; empty for the machine's own.
func (l *Lab) NamespaceFile(host string) string { return nsPath(l.Name, host) }

// Do runs f on a thread inside a host's namespace. Sockets that f makes stay in that namespace.
func (l *Lab) Do(host string, f func() error) error {
	if _, err := l.Host(host); err != nil {
		return err
	}
	return inNamespace(nsPath(l.Name, host), f)
}

// Command prepares a command for [Lab.Start].
func (l *Lab) Command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = l.environment()
	return cmd
}

// Start starts a command inside a host.
func (l *Lab) Start(host string, cmd *exec.Cmd) error { return l.Do(host, cmd.Start) }

// environment returns variables by which commands in the lab find its nodes and the programs next
// to this one.
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

// Exec replaces this process by a command in a host. It returns only on failure.
func (l *Lab) Exec(host string, argv []string) error {
	if _, err := l.Host(host); err != nil {
		return err
	}
	env := l.environment()
	// LookPath searches this process's PATH.
	if err := os.Setenv("PATH", strings.TrimPrefix(env[len(env)-2], "PATH=")); err != nil {
		return err
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	err = l.Do(host, func() error { return unix.Exec(program, argv, env) })
	return fmt.Errorf("run %s in %s: %w", argv[0], host, err)
}
