package lab

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// asNobody prepares the command for a user without privileges.
func asNobody(t *testing.T, runtimeDir string, args ...string) *exec.Cmd {
	t.Helper()
	const nobody = 65534
	self, err := os.Open("/proc/self/exe") // the user may lack access to the test binary's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { self.Close() })
	if err := os.Chown(runtimeDir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1", "XDG_RUNTIME_DIR="+runtimeDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

func outputIn(t *testing.T, l *lab.Lab, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := l.Start("c1", cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	return out.String(), err
}

// TestUpWithoutRoot runs `netcraq up` three times, killed, without its terminal, and interrupted, in a host whose loopback
// is otherwise unused.
func TestUpWithoutRoot(t *testing.T) {
	name := clitest.LabName(t, "w")
	l, err := lab.Up(t.Context(), lab.Options{Name: name, Topology: lab.Line, Nodes: 1, Clients: 1, NoRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "netcraq-up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // else up ignores it if the test runs under nohup
	for _, sent := range []os.Signal{unix.SIGKILL, unix.SIGHUP, unix.SIGINT} {
		up := asNobody(t, dir, "up", "--nodes", "4", "--shards", "2")
		output, err := up.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start("c1", up); err != nil {
			t.Fatal(err)
		}
		said := readUntil(output, "Ctrl-C")
		for _, want := range []string{"sockets", "because XDP and network namespaces need root", "n4  tail", "put greeting"} {
			if !strings.Contains(said, want) {
				t.Errorf("up does not say %q:\n%s", want, said)
			}
		}
		if out, err := outputIn(t, l, asNobody(t, dir, "put", "k", "v")); err != nil {
			t.Error(err, out)
		}
		testSecondUp(t, l, dir)
		if err := up.Process.Signal(sent); err != nil {
			t.Fatal(err)
		}
		if err := up.Wait(); (err == nil) != (sent != unix.SIGKILL) {
			t.Errorf("up ends by %v: %v", sent, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "netcraq")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster file is left behind: %v", err)
	}
}

// TestUpWithoutReader: `netcraq up` serves and cleans up when nothing reads its output.
func TestUpWithoutReader(t *testing.T) {
	name := clitest.LabName(t, "w")
	l, err := lab.Up(t.Context(), lab.Options{Name: name, Topology: lab.Line, Nodes: 1, Clients: 1, NoRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "netcraq-up") // the user has no right to those of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	reader, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	up := asNobody(t, dir, "up")
	up.Stdout = output
	reader.Close()
	if err := l.Start("c1", up); err != nil {
		t.Fatal(err)
	}
	output.Close()
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	for stored := false; !stored; {
		select {
		case err := <-ended:
			t.Fatal("up has ended: ", err)
		default:
			_, err := outputIn(t, l, asNobody(t, dir, "put", "k", "v"))
			stored = err == nil
		}
	}
	if err := errors.Join(up.Process.Signal(unix.SIGINT), <-ended); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "netcraq")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster file is left behind: %v", err)
	}
}

// testSecondUp runs `netcraq up` next to another one, which stays the default.
func testSecondUp(t *testing.T, l *lab.Lab, dir string) {
	t.Helper()
	second := asNobody(t, dir, "up")
	output, err := second.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start("c1", second); err != nil {
		t.Fatal(err)
	}
	said := readUntil(output, "Ctrl-C")
	_, file, _ := strings.Cut(said, "--cluster ")
	file, _, _ = strings.Cut(file, " ")
	if out, err := outputIn(t, l, asNobody(t, dir, "get", "k", "--cluster", file)); err == nil ||
		!strings.Contains(out, "not found") {
		t.Errorf("the second chain has the first one's key: %v, %s\n%s", err, out, said)
	}
	if out, err := outputIn(t, l, asNobody(t, dir, "get", "k")); err != nil || out != "v\n" {
		t.Errorf("the default: %v, %s", err, out)
	}
	if err := errors.Join(second.Process.Signal(unix.SIGINT), second.Wait()); err != nil {
		t.Errorf("the second up: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is left: %v", err)
	}
}

// TestDemoBesideUp runs scripts/demo.sh next to `netcraq up`. It expects that the demo uses a chain of its own.
func TestDemoBesideUp(t *testing.T) {
	name := clitest.LabName(t, "d")
	l, err := lab.Up(t.Context(), lab.Options{Name: name, Topology: lab.Line, Nodes: 1, Clients: 1, NoRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "netcraq-demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	script, program := filepath.Join(dir, "scripts", "demo.sh"), filepath.Join(dir, "bin", cli.ProductName)
	for path, from := range map[string]string{script: "../../../scripts/demo.sh", program: os.Args[0]} {
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", from, path).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	up := asNobody(t, dir, "up")
	output, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start("c1", up); err != nil {
		t.Fatal(err)
	}
	readUntil(output, "Ctrl-C")
	shown := asNobody(t, dir)
	shown.Path, shown.Args = "/bin/bash", []string{"bash", script}
	said, err := outputIn(t, l, shown)
	if err != nil || !strings.Contains(said, "(exit status 4)") {
		t.Errorf("the demo: %v: %s", err, said)
	}
	if out, err := outputIn(t, l, asNobody(t, dir, "get", "visits")); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("the demo wrote to the chain that was up: %v: %s", err, out)
	}
	if err := errors.Join(up.Process.Signal(unix.SIGINT), up.Wait()); err != nil {
		t.Error(err)
	}
}

// readUntil returns the output up to the line with the given prefix.
func readUntil(r io.Reader, prefix string) string {
	var said strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), prefix) {
			break
		}
	}
	return said.String()
}

// TestUpAndInterrupt runs `netcraq up` as root twice: killed and then interrupted.
func TestUpAndInterrupt(t *testing.T) {
	name := clitest.LabName(t, "i")
	for _, signal := range []os.Signal{unix.SIGKILL, unix.SIGINT} {
		up := exec.Command(os.Args[0], "up", "--plane", cli.PlaneXDP, "--name", name)
		up.Env = append(os.Environ(), clitest.AsCommand+"=1")
		output, err := up.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		if said := readUntil(output, "Ctrl-C"); !strings.Contains(said, "as you asked") {
			t.Errorf("up does not say why:\n%s", said)
		}
		clitest.MustRun(t, "lab", "--name", name, "exec", "c1", "--", "netcraq", "put", "k", "v")
		if err := up.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := up.Wait(); (err == nil) != (signal != unix.SIGKILL) {
			t.Errorf("up ends by %v: %v", signal, err)
		}
	}
	if _, err := lab.Open(name); !errors.Is(err, lab.ErrNotUp) {
		t.Errorf("after Ctrl-C the lab: %v", err)
	}
}

// TestInterruptedStart interrupts `netcraq up` while the lab is built, at each step of it: that is the way out and no
// failure, and nothing is left.
func TestInterruptedStart(t *testing.T) {
	name := clitest.LabName(t, "c")
	for steps := range 2 {
		up := exec.Command(os.Args[0], "up", "--plane", cli.PlaneXDP, "--name", name)
		up.Env = append(os.Environ(), clitest.AsCommand+"=1")
		output, err := up.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewReader(output)
		for range steps + 1 {
			if _, err := said.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := up.Process.Signal(unix.SIGINT); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(said)
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Wait(); err != nil || !strings.Contains(string(rest), "cleaned up") {
			t.Errorf("interrupted after %d steps: %v: %s", steps+1, err, rest)
		}
		if _, err := lab.Open(name); !errors.Is(err, lab.ErrNotUp) {
			t.Errorf("interrupted after %d steps, the lab: %v", steps+1, err)
		}
	}
}

// TestUpOnP4 runs what `netcraq up --plane p4` prints as examples, and ends it with Ctrl-C.
func TestUpOnP4(t *testing.T) {
	enginetest.Need(t)
	name := clitest.LabName(t, "u")
	up := exec.Command(os.Args[0], "up", "--plane", cli.PlaneP4, "--name", name)
	up.Env = append(os.Environ(), clitest.AsCommand+"=1")
	output, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	if said := readUntil(output, "Ctrl-C"); !strings.Contains(said, "P4 switches") {
		t.Errorf("up: %s", said)
	}
	in := func(argv ...string) string {
		t.Helper()
		return clitest.MustRun(t, append([]string{"lab", "--name", name, "exec", "c1", "--", "netcraq"}, argv...)...)
	}
	in("put", "greeting", "hello")
	clitest.MustRun(t, "lab", "--name", name, "fault", "loss", "2")
	for n := range 20 {
		if got := strings.TrimSpace(in("add", "n", "1")); got != strconv.Itoa(n+1) {
			t.Fatalf("add %d: %s", n+1, got)
		}
	}
	if got := in("get", "greeting", "--trace"); !strings.Contains(got, "hello") {
		t.Errorf("get --trace: %s", got)
	}
	for _, h := range statusOf(t, name).Hosts {
		if h.Node != nil && (h.Node.Health != lab.HealthOK || h.Node.Plane != cli.PlaneP4 || h.Node.Objects != 2) {
			t.Errorf("%s: %+v", h.Name, h.Node)
		}
	}
	if err := up.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	if _, err := lab.Open(name); !errors.Is(err, lab.ErrNotUp) {
		t.Errorf("after Ctrl-C the lab: %v", err)
	}
}
