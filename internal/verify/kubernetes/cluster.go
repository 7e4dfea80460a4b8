package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// PodImage is the image of sandboxes, and of pods that wait.
const PodImage = "docker.io/library/netcraq-pod:latest"

// Options describe a cluster.
type Options struct {
	Name     string   `json:"name"`
	Netcraq  string   `json:"netcraq"`  // the product's program; netcraq-cni is beside it
	Programs string   `json:"programs"` // directory of Kubernetes' programs
	Images   []string `json:"images"`   // archives for containerd
	// Manifests are those of deploy/manifests; empty: the cluster has no nodes of a chain.
	Manifests string `json:"manifests"`
	// Tags: the programs of the manifests and the gateways have certificates, and the chain requires tags.
	Tags bool `json:"tags"`
	// Members is the number of etcd's members, at most [MostMembers]; 0: one.
	Members int `json:"members,omitempty"`
	// MemoryLeases: a new cluster keeps its leases in the chain's memory; see [UseLeases].
	MemoryLeases bool `json:"-"`

	// Machine returns the command that calls [RunMachine].
	Machine  func(machine string) []string `json:"-"`
	Progress func(string)                  `json:"-"`
}

// programs are those of Kubernetes that a cluster runs.
var programs = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"}

// startLimit bounds the start of the cluster. It is for a program that hangs, not a measure of speed.
const startLimit = 5 * time.Minute

// possible returns an error for what the cluster needs and this machine lacks.
func (o *Options) possible() error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster makes namespaces and control groups, so it has to be run as root (sudo)")
	}
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(o.Programs, name)); err != nil {
			return fmt.Errorf("%w: `make kubernetes` compiles Kubernetes; --programs names another directory", err)
		}
	}
	if o.Members < 0 || o.Members > MostMembers {
		return fmt.Errorf("%d members of etcd: want 1 to %d", o.Members, MostMembers)
	}
	if o.Manifests != "" {
		if _, err := os.Stat(o.Manifests); err != nil {
			return fmt.Errorf("%w: --manifests names another file", err)
		}
	}
	if o.Tags && o.Manifests == "" {
		return errors.New("--tags needs the nodes of a chain: leave it out, or --chain=false")
	}
	if o.MemoryLeases && o.Manifests == "" {
		return errors.New("--memory-leases needs the nodes of a chain: leave it out, or --chain=false")
	}
	for _, image := range o.Images {
		if _, err := os.Stat(image); err != nil {
			return fmt.Errorf("%w: `make kubernetes` makes the images; --images names another directory", err)
		}
	}
	for _, name := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: install it, on Debian: apt-get install containerd runc", err)
		}
	}
	if _, err := os.Stat(filepath.Join(debianCNI, "bridge")); err != nil {
		return fmt.Errorf("%w: install it, on Debian: apt-get install containernetworking-plugins", err)
	}
	return nil
}

// Up brings a cluster up, or changes nothing. In a cluster that is up, it replaces machines that have ended.
func Up(ctx context.Context, o Options) error {
	if err := o.possible(); err != nil {
		return err
	}
	s, err := readState(o.Name)
	switch {
	case errors.Is(err, ErrNotUp):
		return create(ctx, o)
	case err != nil:
		return err
	case !s.Up || !s.Machines[Control].Alive():
		return fmt.Errorf("cluster %q is only partly there: remove it with `netcraq lab kubernetes down`", o.Name)
	}
	if s.Options.Tags != o.Tags {
		return fmt.Errorf("cluster %q was brought up with --tags=%t: give the same, or remove it first", o.Name,
			s.Options.Tags)
	}
	s.Options, s.started = o, make(map[string]time.Time)
	return replace(ctx, s)
}

// newState makes the directory of a new cluster.
func newState(o Options) (*state, error) {
	s := &state{Options: o, Machines: make(map[string]lab.Process), started: make(map[string]time.Time)}
	for {
		err := os.MkdirAll(runDir, 0o755)
		if err == nil {
			err = os.Mkdir(dirOf(o.Name), 0o700)
		}
		if !errors.Is(err, os.ErrNotExist) { // another process has just removed an empty directory above
			return s, err
		}
	}
}

func create(ctx context.Context, o Options) error {
	if err := checkRoutes(); err != nil {
		return err
	}
	s, err := newState(o)
	if err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		err = fmt.Errorf("cluster %q: %w", o.Name, err)
		s.showLogs()
		return errors.Join(err, remove(context.WithoutCancel(ctx), o.Name))
	}
	return nil
}

// writeFiles writes what machines need before they start.
func (s *state) writeFiles() error {
	dir := dirOf(s.Options.Name)
	for _, h := range hosts() {
		if err := os.Mkdir(filepath.Join(dir, h.name), 0o700); err != nil {
			return err
		}
	}
	if err := errors.Join(writeCredentials(dir), s.writeIdentities(dir)); err != nil {
		return err
	}
	return s.write()
}

func (s *state) build(ctx context.Context) error {
	if err := s.writeFiles(); err != nil {
		return err
	}
	for _, h := range hosts() {
		s.Options.Progress("starting " + h.name)
		if err := s.startMachine(h); err != nil {
			return err
		}
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	if s.Options.Manifests != "" {
		if err := s.use(ctx, Serving{Store: StoreChain}); err != nil {
			return err
		}
	}
	if s.Options.MemoryLeases {
		if err := s.useLeases(ctx, true); err != nil {
			return err
		}
	}
	s.Up = true
	return s.write()
}

// replace starts machines that have ended. They have nothing of what their predecessors had in memory.
func replace(ctx context.Context, s *state) error {
	for _, h := range workerHosts() {
		if s.Machines[h.name].Alive() {
			continue
		}
		s.Options.Progress("starting " + h.name + " again")
		if err := removeGroups(ctx, groupOf(s.Options.Name, h.name)); err != nil {
			return err
		}
		if err := s.startMachine(h); err != nil {
			return err
		}
	}
	return s.awaitReady(ctx)
}

// startMachine starts a machine and links it. The machine waits until it is listed in the state file and linked; it
// ends if this process does before.
func (s *state) startMachine(h host) error {
	wait, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	p, err := s.fork(h, wait)
	wait.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	s.Machines[h.name] = p
	s.started[h.name] = time.Now().Truncate(time.Second) // Kubernetes has whole seconds
	if err := s.write(); err != nil {
		return err
	}
	group := groupOf(s.Options.Name, h.name)
	err = errors.Join(makeGroup(group), joinGroup(group, p.PID))
	if h.number == 0 {
		err = errors.Join(err, joinControl(s.Options.Name, p))
	} else {
		err = errors.Join(err, joinWorker(h, p, s.Machines[Control]))
	}
	if err != nil && !p.Alive() {
		err = fmt.Errorf("%w: the machine has ended: %s", err, lastLine(LogOf(s.Options.Name, h.name, "machine")))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h.name, err)
	}
	_, err = release.WriteString("go\n")
	return err
}

func (s *state) fork(h host, wait *os.File) (lab.Process, error) {
	log, err := os.OpenFile(LogOf(s.Options.Name, h.name, "machine"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return lab.Process{}, err
	}
	defer log.Close()
	argv := s.Options.Machine(h.name)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = "/", log, log, []*os.File{wait}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS |
		unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	if err := cmd.Start(); err != nil {
		return lab.Process{}, err
	}
	go func() { _ = cmd.Wait() }() // a machine that ended at once must not look alive
	return lab.ProcessOf(cmd.Process.Pid)
}

// Down removes a cluster or its remains, and reports whether there was anything.
func Down(ctx context.Context, name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	if _, err := os.Stat(dirOf(name)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if os.Geteuid() != 0 {
		return false, errors.New("removing a cluster has to be done as root (sudo)")
	}
	return true, remove(ctx, name)
}

// remove ends the machines, and removes what does not end with them. The state file goes last.
func remove(ctx context.Context, name string) error {
	if s, err := readState(name); err == nil {
		s.Up = false
		if err := s.write(); err != nil {
			return err
		}
		for machine, p := range s.Machines {
			if err := p.Kill(); err != nil {
				return fmt.Errorf("%s: %w", machine, err)
			}
		}
	}
	if err := removeGroups(ctx, groupOf(name, "*")); err != nil {
		return err
	}
	root, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := removeDevice(root, rootDevice(name)); err != nil {
		return err
	}
	if err := os.RemoveAll(dirOf(name)); err != nil {
		return err
	}
	os.Remove(runDir)               // fails while there are other clusters
	os.Remove(filepath.Dir(runDir)) // fails while there is anything else
	return nil
}
