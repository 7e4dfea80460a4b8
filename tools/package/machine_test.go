package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machines is where the machines' file systems are: a file system in memory, of the test's own mount namespace. Each
// machine's is an overlay over a fresh Debian.
const (
	machines = "/run/machines"
	debian   = machines + "/debian"
)

// formed bounds the start of a machine, a unit and a cluster.
const formed = 2 * time.Minute

// machine runs systemd in namespaces: its files, network and BPF file system are its own.
type machine struct {
	t       *testing.T
	number  int
	root    string // of its file system
	boots   int
	spawned *exec.Cmd // systemd-nspawn; nil without power
	console *bytes.Buffer
	leader  string // the process of its systemd
}

// sh runs a script with errors as the test's.
func sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("bash", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return string(out)
}

// newMachine makes a machine at 192.0.2.NUMBER.
func newMachine(t *testing.T, number int) *machine {
	t.Helper()
	m := &machine{t: t, number: number, root: fmt.Sprintf("%s/%d/root", machines, number)}
	sh(t, fmt.Sprintf(`
n=%d; m=%s/$n; mkdir -p $m/upper $m/work $m/root
mount -t overlay overlay -o lowerdir=%s,upperdir=$m/upper,workdir=$m/work $m/root`, number, machines, debian))
	t.Cleanup(m.cutPower)
	return m
}

// boot gives a machine power, and waits until its systemd answers.
func (m *machine) boot() {
	m.t.Helper()
	m.boots++
	name := fmt.Sprintf("netcraq-m%d-%d", m.number, m.boots)
	// systemd needs a control group of its own. Port and address are as a host's are, when its systemd begins.
	script := fmt.Sprintf(`
n=%d; name=%s
ip netns add $name
ip link add port$n type veth peer name eth0 netns $name
ip link set port$n master switch0 up
ip -n $name link set lo up; ip -n $name link set eth0 up; ip -n $name address add 192.0.2.$n/24 dev eth0
for h in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
	[ -e $h/cgroup.procs ] || continue
	mkdir -p $h/$name; echo $$ >$h/$name/cgroup.procs
done
exec systemd-nspawn --quiet --boot --directory=%s --machine=m$n --register=no --keep-unit --console=pipe \
	--capability=all --system-call-filter='bpf perf_event_open' \
	--network-namespace-path=/run/netns/$name`, m.number, name, m.root)
	m.console = new(bytes.Buffer)
	m.spawned = exec.Command("bash", "-euc", script)
	m.spawned.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes")
	m.spawned.Stdout, m.spawned.Stderr = m.console, m.console
	if err := m.spawned.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.await("systemd", func() (string, bool) {
		pid := m.spawned.Process.Pid
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for _, child := range strings.Fields(string(children)) {
			m.leader = child
			out, err := m.run("systemctl", "is-system-running")
			if state := strings.TrimSpace(out); state == "running" || state == "degraded" {
				return state, true
			} else if err != nil {
				return out, false
			}
		}
		return fmt.Sprint(err), false
	})
}

// cutPower ends everything that runs on a machine. What its kernel stored is lost, and its disk remains.
func (m *machine) cutPower() {
	if m.spawned == nil {
		return
	}
	if m.t.Failed() {
		log, _ := m.run("journalctl", "--no-pager", "--lines=60", "--unit=netcraq-*")
		m.t.Logf("machine %d: %s", m.number, log)
	}
	// All processes of a process namespace end with its first one.
	for _, pid := range []string{m.leader, fmt.Sprint(m.spawned.Process.Pid)} {
		_ = exec.Command("kill", "-KILL", pid).Run() // nspawn may have ended with the machine
	}
	_ = m.spawned.Wait() // it was killed
	m.spawned = nil
	sh(m.t, fmt.Sprintf(`
name=netcraq-m%d-%d
ip netns delete $name; ip link delete port%d 2>/dev/null || true
cd /sys/fs/cgroup
find . unified systemd -depth -path "*/$name*" -type d -exec rmdir {} + 2>/dev/null || true`,
		m.number, m.boots, m.number))
}

// await repeats a look until it reports true.
func (m *machine) await(what string, look func() (string, bool)) {
	m.t.Helper()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(formed); ; <-every.C {
		saw, ok := look()
		if ok {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("machine %d, %s: %s\n%s", m.number, what, saw, m.console)
		}
	}
}

// run runs a command on the machine.
func (m *machine) run(args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"--all", "--target", m.leader}, args...)...).CombinedOutput()
	return string(out), err
}

// must runs a command on the machine that has to succeed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	out, err := m.run(args...)
	if err != nil {
		m.t.Fatalf("machine %d, %q: %v: %s", m.number, args, err, out)
	}
	return out
}

// install copies a package to the machine and installs it, as docs/install.md says. Changed configuration files stay.
func (m *machine) install(deb string) {
	m.t.Helper()
	text, err := os.ReadFile(deb)
	if err == nil {
		err = os.WriteFile(m.root+"/root/netcraq.deb", text, 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.must("apt-get", "install", "--yes", "--option=Dpkg::Options::=--force-confold", "/root/netcraq.deb")
	m.must("rm", "/root/netcraq.deb")
}

// configure adds lines to a configuration file.
func (m *machine) configure(file, lines string) {
	m.t.Helper()
	path := m.root + "/etc/netcraq/" + file
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(text, lines...), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// ready waits until a unit says that it is ready. A restart that was asked for comes first. A keyspace's gateway ends,
// and is started again, while there is no cluster.
func (m *machine) ready(unit string) {
	m.t.Helper()
	m.await(unit, func() (string, bool) {
		out, err := m.run("timeout", "20", "systemctl", "start", unit)
		return out, err == nil
	})
}

// started is when a unit's process began, in the machine's own words.
func (m *machine) started(unit string) string {
	m.t.Helper()
	return m.must("systemctl", "show", "--property=MainPID,ExecMainStartTimestampMonotonic", unit)
}

// left are files that a package left behind, in what was written over the machine's file system. Debian's own records
// of packages and users, and files that hold the users as before, are none.
func (m *machine) left() (paths []string) {
	upper := fmt.Sprintf("%s/%d/upper", machines, m.number)
	err := filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
		if rest := strings.TrimPrefix(path, upper); strings.Contains(rest, "netcraq") && !isWhiteout(path) {
			paths = append(paths, rest)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range []string{"/run/netcraq", "/sys/fs/bpf/netcraq"} {
		if _, err := m.run("test", "-e", dir); err == nil {
			paths = append(paths, dir)
		}
	}
	if port := m.must("ip", "-details", "link", "show", "dev", "eth0"); strings.Contains(port, "prog/xdp") {
		paths = append(paths, "a program at eth0")
	}
	units := m.must("systemctl", "list-units", "--all", "--plain", "--no-legend", "netcraq*")
	if anyUnit.MatchString(units) {
		paths = append(paths, units)
	}
	return paths
}

var anyUnit = regexp.MustCompile(`netcraq-[a-z]+\.service +loaded`)

// isWhiteout reports whether a file of an overlay's upper directory stands for a deleted one.
func isWhiteout(path string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(path, &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == 0
}
