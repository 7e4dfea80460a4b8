package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
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
	released := os.NewFile(goahead, "goahead")
	if text, err := io.ReadAll(released); err != nil || len(text) == 0 {
		return errors.New("the process that started this machine has ended")
	}
	released.Close()
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
		m.wanted = wantedOf
		hangUps := make(chan os.Signal, 1)
		signal.Notify(hangUps, unix.SIGHUP)
		m.start(s.controlServices()...)
		go func() {
			for range hangUps {
				m.startMissing()
			}
		}()
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

// wantedOf are the control machine's services by the state of now, which says where the API server keeps its objects
// and whether the gateway reads from the chain.
func wantedOf() ([]service, error) {
	s, err := readStateAt(filepath.Join(inside, stateName))
	if err != nil {
		return nil, err
	}
	return s.controlServices(), nil
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
	logs   string                    // directory
	wanted func() ([]service, error) // the services of now; nil: those that were started, as before

	mu       sync.Mutex
	services map[int]service // by process
}

// restartPause keeps a program that cannot run from using a CPU.
const restartPause = time.Second

func (m *supervisor) start(services ...service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.startLocked(services...)
}

func (m *supervisor) startLocked(services ...service) {
	for _, s := range services {
		pid, err := m.run(s)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
			continue
		}
		m.services[pid] = s
	}
}

// startMissing starts services that are wanted and do not run.
func (m *supervisor) startMissing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted, err := m.wanted()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, now := range wanted {
		runs := false
		for _, s := range m.services {
			runs = runs || s.name == now.name
		}
		if !runs {
			m.startLocked(now)
		}
	}
}

// startAgain starts a service that has ended, unless it is no longer wanted.
func (m *supervisor) startAgain(s service) {
	if m.wanted == nil {
		m.startLocked(s)
		return
	}
	wanted, err := m.wanted()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		m.startLocked(s)
	}
	for _, now := range wanted {
		if now.name == s.name {
			m.startLocked(now)
		}
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
		m.ended(pid)
	}
}

// ended starts a service again if the process was one.
func (m *supervisor) ended(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ours := m.services[pid]
	if !ours {
		return
	}
	delete(m.services, pid)
	fmt.Fprintf(os.Stderr, "%s has ended\n", s.name)
	time.Sleep(restartPause)
	m.startAgain(s)
}
