package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machines is where the machines' file systems are: a file system in memory, of the test's own mount namespace.
const machines = "/run/machines"

// machine is a Debian of its own, over the one that the test runs on: its files, network and BPF file system.
type machine struct {
	t      *testing.T
	number int
	root   string // of its file system
	units  map[string]*unit
}

// unit is a service that runs as its unit says.
type unit struct {
	command *exec.Cmd
	notify  *net.UnixConn
	log     *bytes.Buffer
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
	m := &machine{t: t, number: number, root: fmt.Sprintf("%s/%d/root", machines, number), units: make(map[string]*unit)}
	sh(t, fmt.Sprintf(`
n=%d; m=%s/$n; mkdir -p $m/upper $m/work $m/root
ip netns add m$n
ip link add port$n type veth peer name eth0 netns m$n
ip link set port$n master switch0 up
ip -n m$n link set lo up; ip -n m$n link set eth0 up; ip -n m$n address add 192.0.2.$n/24 dev eth0
mount -t overlay overlay -o lowerdir=/,upperdir=$m/upper,workdir=$m/work $m/root
mount --bind /proc $m/root/proc; mount --bind /dev $m/root/dev
nsenter --net=/run/netns/m$n mount -t sysfs sysfs $m/root/sys
mount -t bpf bpf $m/root/sys/fs/bpf
mount -t tmpfs tmpfs $m/root/run; mount -t tmpfs tmpfs $m/root/tmp`, number, machines))
	return m
}

// run runs a command on the machine.
func (m *machine) run(args ...string) (string, error) {
	inside := append([]string{fmt.Sprintf("--net=/run/netns/m%d", m.number), "chroot", m.root}, args...)
	out, err := exec.Command("nsenter", inside...).CombinedOutput()
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

// install copies a package to the machine and installs it.
func (m *machine) install(deb string) {
	m.t.Helper()
	text, err := os.ReadFile(deb)
	if err == nil {
		err = os.WriteFile(m.root+"/tmp/netcraq.deb", text, 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.must("dpkg", "--force-confold", "-i", "/tmp/netcraq.deb")
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

var execStart = regexp.MustCompile(`(?m)^ExecStart=(.*)$`)

// start runs what a unit's ExecStart says, as its user, in the way that systemd does.
func (m *machine) start(name string) {
	m.t.Helper()
	text, err := os.ReadFile(m.root + "/lib/systemd/system/netcraq-" + name + ".service")
	if err != nil {
		m.t.Fatal(err)
	}
	args := strings.Fields(execStart.FindStringSubmatch(string(text))[1])
	if strings.Contains(string(text), "\nUser=netcraq\n") {
		m.must("install", "-d", "-o", "netcraq", "-g", "netcraq", "/var/lib/netcraq")
		args = append([]string{"setpriv", "--reuid=netcraq", "--regid=netcraq", "--clear-groups"}, args...)
	}
	path := m.root + "/run/notify-" + name
	_ = os.Remove(path) // of an earlier start
	u := &unit{log: new(bytes.Buffer)}
	if u.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		m.t.Fatal(err)
	}
	u.command = exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/run/netns/m%d", m.number), "chroot", m.root}, args...)...)
	u.command.Env = append(os.Environ(), "NOTIFY_SOCKET=/run/notify-"+name)
	u.command.Stdout, u.command.Stderr = u.log, u.log
	if err := u.command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.units[name] = u
}

// ready waits until a unit says that it is ready.
func (m *machine) ready(name string) {
	m.t.Helper()
	u, b := m.units[name], make([]byte, 100)
	if err := u.notify.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	n, err := u.notify.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		_ = u.command.Process.Kill()
		_ = u.command.Wait()
		m.t.Fatalf("machine %d, %s: %q, %v\n%s", m.number, name, b[:n], err, u.log)
	}
}

// etcd calls a method of etcd's KV service at the machine's gateway of a keyspace, in JSON. It is repeated while no
// gateway is active.
func (m *machine) etcd(method, request string) string {
	m.t.Helper()
	return m.must("curl", "--silent", "--show-error", "--fail", "--retry", "100", "--retry-all-errors", "--retry-delay", "1",
		"--retry-max-time", "120", fmt.Sprintf("http://192.0.2.%d:2379/v3/kv/%s", m.number, method), "--data", request)
}

// stop ends a unit by a signal, and waits for its end.
func (m *machine) stop(name string, signal syscall.Signal) {
	m.t.Helper()
	u := m.units[name]
	if u == nil {
		return
	}
	delete(m.units, name)
	if err := u.command.Process.Signal(signal); err != nil {
		m.t.Error(err)
	}
	if err := u.command.Wait(); err != nil && signal == syscall.SIGTERM {
		m.t.Errorf("machine %d, %s ended: %v\n%s", m.number, name, err, u.log)
	}
	u.notify.Close()
}

// left are files that a package left behind, in what was written over the machine's file system. Debian's own records of
// packages and users, and files that hold the users as before, are none.
func (m *machine) left() (paths []string) {
	ours := regexp.MustCompile(`netcraq`)
	upper := fmt.Sprintf("%s/%d/upper", machines, m.number)
	err := filepath.WalkDir(upper, func(path string, _ fs.DirEntry, err error) error {
		if rest := strings.TrimPrefix(path, upper); ours.MatchString(rest) && !isWhiteout(path) {
			paths = append(paths, rest)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range []string{"/run/netcraq", "/sys/fs/bpf/netcraq"} {
		if _, err := os.Stat(m.root + dir); err == nil {
			paths = append(paths, dir)
		}
	}
	return paths
}

// isWhiteout reports whether a file of an overlay's upper directory stands for a deleted one.
func isWhiteout(path string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(path, &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == 0
}

// set installs a package on machine n, and configures its units for a cluster of three machines.
func (m *machine) set(deb string, n int) {
	m.t.Helper()
	const controllers = "192.0.2.1, 192.0.2.2, 192.0.2.3"
	m.install(deb)
	m.configure("controller.yaml", fmt.Sprintf("name: c%d\nshards: 16\n"+
		"initial-cluster: [c1=192.0.2.1, c2=192.0.2.2, c3=192.0.2.3]\n", n))
	m.configure("node.yaml", fmt.Sprintf("name: n%d\naddr: 192.0.2.%d:4411\njoin: [%s]\nmetrics: 192.0.2.%d:9414\n"+
		"port-if: [eth0]\n", n, n, controllers, n))
	m.configure("keyspace.yaml", fmt.Sprintf("listen: 192.0.2.%d:2379\ncontrollers: [%s]\n", n, controllers))
}

// TestInstalled installs a package on three machines, forms a cluster with a keyspace on disks by the units' own commands,
// cuts a machine's power, upgrades, and removes the package. `make test-package` runs it, in namespaces of its own.
func TestInstalled(t *testing.T) {
	first, next := os.Getenv("PACKAGE"), os.Getenv("NEXT_PACKAGE")
	if first == "" || next == "" {
		t.Skip("make test-package names the packages")
	}
	sh(t, "mount --make-rprivate /; mount -t tmpfs tmpfs /run; ip link set lo up; ip link add switch0 type bridge; ip link set switch0 up")
	const all = "192.0.2.1,192.0.2.2,192.0.2.3"
	var three []*machine
	for n := 1; n <= 3; n++ {
		three = append(three, newMachine(t, n))
		three[n-1].set(first, n)
	}
	t.Cleanup(func() {
		for _, m := range three {
			for _, name := range []string{"keyspace", "node", "controller"} {
				m.stop(name, syscall.SIGKILL)
			}
		}
	})
	for _, name := range []string{"controller", "node", "keyspace"} {
		for _, m := range three {
			m.start(name)
		}
		for _, m := range three {
			m.ready(name)
		}
	}
	use := func(m *machine, key string) {
		t.Helper()
		m.must("netcraq", "put", key, "value of "+key, "--controllers", all, "--timeout", "1m")
		if got := m.must("netcraq", "get", key, "--controllers", all, "--timeout", "1m"); strings.TrimSpace(got) != "value of "+key {
			t.Errorf("%s is %q", key, got)
		}
	}
	use(three[0], "formed")
	three[0].etcd("put", `{"key": "Zm9v", "value": "YmFy"}`)
	t.Log(three[0].must("netcraq", "status", "--controllers", all))
	sh(t, "ip link set port3 down") // the power of a machine is cut
	for _, name := range []string{"keyspace", "node", "controller"} {
		three[2].stop(name, syscall.SIGKILL)
	}
	use(three[0], "repaired")
	before := three[0].must("cat", "/etc/netcraq/node.yaml")
	three[0].install(next)
	if three[0].must("cat", "/etc/netcraq/node.yaml") != before {
		t.Error("the upgrade changed a configuration file")
	}
	for _, name := range []string{"node", "keyspace"} {
		three[0].stop(name, syscall.SIGTERM)
		three[0].start(name)
		three[0].ready(name)
	}
	use(three[1], "upgraded")
	for _, m := range three[:2] {
		if answer := m.etcd("range", `{"key": "Zm9v"}`); !strings.Contains(answer, `"value":"YmFy"`) {
			t.Errorf("machine %d: the keyspace answers %s", m.number, answer)
		}
	}
	for _, key := range []string{"formed", "repaired"} {
		three[0].must("netcraq", "get", key, "--controllers", all, "--timeout", "1m")
	}
	for _, m := range slices.Backward(three) {
		m.remove()
	}
}

// remove ends the units and removes the package, which leaves nothing.
func (m *machine) remove() {
	m.t.Helper()
	for _, name := range []string{"keyspace", "node", "controller"} {
		m.stop(name, syscall.SIGTERM)
	}
	m.must("dpkg", "--purge", "netcraq")
	if left := m.left(); len(left) > 0 {
		m.t.Errorf("machine %d: the package left %q", m.number, left)
	}
	if out, err := m.run("getent", "passwd", "netcraq"); err == nil {
		m.t.Errorf("machine %d: the user is left: %s", m.number, out)
	}
}
