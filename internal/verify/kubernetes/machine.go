package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// goahead is the descriptor from which a machine reads that it is listed and linked.
const goahead = 3

// importLimit bounds the start of containerd and the import of the images.
const importLimit = 2 * time.Minute

// RunMachine is the first process of a machine, in its namespaces. It returns only if the machine cannot start.
func RunMachine(name, machine string) error {
	h, err := hostNamed(machine)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("is started by `netcraq lab kubernetes up` only")
	}
	signal := os.NewFile(goahead, "goahead")
	if text, err := io.ReadAll(signal); err != nil || len(text) == 0 {
		return errors.New("the process that started this machine has ended")
	}
	signal.Close()
	s, err := readState(name)
	if err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(h.name)); err != nil {
		return err
	}
	if err := mountAll(dirOf(name)); err != nil {
		return err
	}
	if err := setKernel(); err != nil {
		return err
	}
	m := &supervisor{logs: filepath.Join(inside, h.name), services: make(map[int]service)}
	if h.number == 0 {
		m.again = controlAgain
		m.start(s.controlServices()...)
		return m.watch()
	}
	if err := s.configure(h); err != nil {
		return err
	}
	m.start(containerd)
	if err := s.importImages(); err != nil {
		return err
	}
	m.start(s.kubelet(h))
	return m.watch()
}

// controlAgain returns a service's command by the state of now, which says where the API server keeps its objects and
// whether the gateway reads from the chain.
func controlAgain(before service) service {
	s, err := readStateAt(filepath.Join(inside, stateName))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return before
	}
	services := s.controlServices()
	if i := slices.IndexFunc(services, func(now service) bool { return now.name == before.name }); i >= 0 {
		return services[i]
	}
	return before
}

// setKernel configures the machine's network namespace as a router without IPv6.
func setKernel() error {
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/disable_ipv6": "1", "net/ipv6/conf/default/disable_ipv6": "1",
		"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/default/rp_filter": "0",
	} {
		err := os.WriteFile("/proc/sys/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// importImages waits for containerd and gives it the images.
func (s *state) importImages() error {
	ctx, cancel := context.WithTimeout(context.Background(), importLimit)
	defer cancel()
	if err := await(ctx, func() error { return ctr(ctx, "version") }); err != nil {
		return fmt.Errorf("containerd does not answer: %w", err)
	}
	for _, image := range s.Options.Images {
		if err := ctr(ctx, "--namespace", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

func ctr(ctx context.Context, arguments ...string) error {
	arguments = append([]string{"--address", containerdSocket}, arguments...)
	if out, err := exec.CommandContext(ctx, "ctr", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %v: %w: %s", arguments, err, out)
	}
	return nil
}

// service is a program of a machine.
type service struct {
	name string // of its log
	argv []string
}

// supervisor runs a machine's programs. It waits for every process by wait4(2) and not by [os.Process.Wait], because
// the orphans of the machine are its children too.
type supervisor struct {
	logs     string // directory
	services map[int]service
	again    func(service) service // how a service is started again; nil: as before
}

// restartPause keeps a program that cannot run from using a CPU.
const restartPause = time.Second

func (m *supervisor) start(services ...service) {
	for _, s := range services {
		pid, err := m.run(s)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			continue
		}
		m.services[pid] = s
	}
}

// run starts a program with its output in its log.
func (m *supervisor) run(s service) (pid int, err error) {
	program, err := exec.LookPath(s.argv[0])
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(m.logs, s.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(program, s.argv, &os.ProcAttr{Dir: "/", Files: []*os.File{null, log, log},
		Env: append(os.Environ(), "TMPDIR="+privateRun, "HOME="+privateRun)})
	if err != nil {
		return 0, err
	}
	pid = p.Pid // Release forgets it
	return pid, p.Release()
}

// watch reaps every process, and starts programs again that have ended.
func (m *supervisor) watch() error {
	for {
		pid, err := eintr.Value(func() (int, error) { return unix.Wait4(-1, nil, 0, nil) })
		if err != nil {
			return fmt.Errorf("no program of this machine runs: %w", err)
		}
		s, ours := m.services[pid]
		if !ours {
			continue
		}
		delete(m.services, pid)
		fmt.Fprintf(os.Stderr, "%s has ended and is started again\n", s.name)
		time.Sleep(restartPause)
		if m.again != nil {
			s = m.again(s)
		}
		m.start(s)
	}
}
