package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// hosts are network namespaces as a user makes them by hand: a middle, and nodes with one link each
// to it. The addresses are those of docs/hosts.md.
type hosts struct {
	t      *testing.T
	prefix string
	wire   string
	file   string
}

func makeHosts(t *testing.T, wire string) *hosts {
	t.Helper()
	h := &hosts{t: t, prefix: fmt.Sprintf("nqh%d", os.Getpid()%100_000), wire: wire,
		file: filepath.Join(t.TempDir(), "cluster.yaml")}
	text := "epoch: 1\nshards: 1\nnodes:\n"
	for i := 1; i <= 3; i++ {
		text += fmt.Sprintf("  - {name: %s, addr: 192.0.2.%d:4411}\n", h.name(i), i)
	}
	text += fmt.Sprintf("chains:\n  - [%s, %s, %s]\n", h.name(1), h.name(2), h.name(3))
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ip("netns add %s", h.name(0))
	h.ip("-n %s link set lo up", h.name(0))
	if wire == "bridge" {
		h.ip("-n %s link add br0 type bridge", h.name(0))
		h.ip("-n %s addr add 192.0.2.254/24 dev br0", h.name(0))
		h.ip("-n %s link set br0 up", h.name(0))
	} else {
		h.ip("-n %s addr add 192.0.2.254/32 dev lo", h.name(0))
		h.sh("ip netns exec %s sysctl -qw net.ipv4.ip_forward=1", h.name(0))
	}
	for i := 1; i <= 3; i++ {
		h.add(i)
	}
	return h
}

// add makes a node's namespace and its link.
func (h *hosts) add(i int) {
	h.t.Helper()
	h.ip("netns add %s", h.name(i))
	h.ip("-n %s link add eth0 type veth peer name v%d netns %s", h.name(i), i, h.name(0))
	h.ip("-n %s link set lo up", h.name(i))
	h.ip("-n %s link set eth0 up", h.name(i))
	h.ip("-n %s link set v%d up", h.name(0), i)
	if h.wire == "bridge" {
		h.ip("-n %s link set v%d master br0", h.name(0), i)
		h.ip("-n %s addr add 192.0.2.%d/24 dev eth0", h.name(i), i)
		return
	}
	h.ip("-n %s addr add 192.0.2.%d/32 dev eth0", h.name(i), i)
	h.ip("-n %s route add 192.0.2.254 dev eth0", h.name(i))
	h.ip("-n %s route add default via 192.0.2.254", h.name(i))
	h.ip("-n %s route add 192.0.2.%d/32 dev v%d", h.name(0), i, i)
}

// name returns the name of a namespace and of its node; 0 is the middle.
func (h *hosts) name(i int) string { return fmt.Sprintf("%sn%d", h.prefix, i) }

func (h *hosts) ip(format string, args ...any) {
	h.t.Helper()
	line := fmt.Sprintf(format, args...)
	h.sh("ip %s", line)
	if name, ok := strings.CutPrefix(line, "netns add "); ok {
		h.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	}
}

func (h *hosts) sh(format string, args ...any) {
	h.t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %v: %s", words, err, out)
	}
}

// enter returns a command line that runs another command in a namespace.
func (h *hosts) enter(way string, i int) []string {
	if way == "ip netns exec" {
		return []string{"ip", "netns", "exec", h.name(i)}
	}
	return []string{"nsenter", "--net=/run/netns/" + h.name(i)}
}

// client runs a command on the chain in the middle.
func (h *hosts) client(args ...string) (string, error) {
	argv := append(h.enter("nsenter", 0), os.Args[0])
	argv = append(append(argv, args...), "--cluster", h.file)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestThreeNodesByHand runs nodes in three hand-made namespaces over links whose other ends do not
// support XDP. It expects answers, and that the nodes print their mode and the reason. Data planes
// outlive agents entered by `nsenter`. They cannot outlive agents entered by `ip netns exec`, which
// makes private mounts, and the agents say so.
func TestThreeNodesByHand(t *testing.T) {
	roottest.Need(t)
	for _, wire := range []string{"veth", "bridge"} {
		for _, way := range []string{"nsenter", "ip netns exec"} {
			t.Run(wire+", "+way, func(t *testing.T) { testThreeNodesByHand(t, wire, way) })
		}
	}
}

func testThreeNodesByHand(t *testing.T, wire, way string) {
	h := makeHosts(t, wire)
	var agents []*byHand
	for i := 1; i <= 3; i++ {
		t.Cleanup(func() { xdp.Remove(xdp.DefaultPin(h.name(i))) })
		agents = append(agents, startByHand(t, append(h.enter(way, i),
			"netcraq", "node", "--name", h.name(i), "--cluster", h.file, "--objects", "1000", "--sessions", "1000")...))
	}
	for _, a := range agents {
		a.await("node is up")
	}
	if out, err := h.client("put", "color", "blue", "--timeout", "10s"); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, agents[0].said)
	}
	for i := 1; i <= 3; i++ {
		if out, err := h.client("get", "color", "--node", h.name(i), "--timeout", "10s"); err != nil || out != "blue" {
			t.Errorf("read at %s: %v: %s\n%s", h.name(i), err, out, agents[i-1].said)
		}
		if said := agents[i-1].said.String(); !strings.Contains(said, "generic") || !strings.Contains(said, "port eth0: ") {
			t.Errorf("%s does not say why it is in generic mode: %s", h.name(i), said)
		}
	}
	own := ownMounts(t)
	for i, a := range agents {
		private := way == "ip netns exec"
		if said := a.said.String(); strings.Contains(said, "nsenter --net=") != (private || own) {
			t.Errorf("%s: mounts of its own: %v: %s", h.name(i+1), private, said)
		}
		a.end(syscall.SIGTERM)
		if lasts := xdp.Pinned(xdp.DefaultPin(h.name(i + 1))); lasts == private {
			t.Errorf("%s: its pins are there after the agent: %v", h.name(i+1), lasts)
		}
		if said := a.said.String(); strings.Contains(said, "keeps answering") != (!private && !own) {
			t.Errorf("%s after its end: %s", h.name(i+1), said)
		}
	}
	// The kernel takes private mounts apart after the end of their last process, and only then the programs.
	out, err := h.client("get", "color")
	for until := time.Now().Add(clitest.Formed); way != "nsenter" && err == nil && time.Now().Before(until); {
		out, err = h.client("get", "color")
	}
	if (err == nil) != (way == "nsenter") {
		t.Errorf("a read after the agents: %v: %s", err, out)
	}
	for i := 1; i <= 3; i++ {
		clitest.MustRun(t, "node", "--name", h.name(i), "--remove")
	}
}

// ownMounts reports whether the test itself runs where pins are not those of the machine.
func ownMounts(t *testing.T) bool {
	t.Helper()
	dir := xdp.DefaultPin(fmt.Sprintf("nqh%d", os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	return node.PrivatePins(dir)
}

// TestNativeIsRefusedInABridge expects native mode to be refused where it cannot answer.
func TestNativeIsRefusedInABridge(t *testing.T) {
	roottest.Need(t)
	h := makeHosts(t, "bridge")
	a := startByHand(t, append(h.enter("nsenter", 1),
		"netcraq", "node", "--name", h.name(1), "--cluster", h.file, "--objects", "1000", "--sessions", "1000",
		"--mode", "native")...)
	<-a.ended
	if said := a.said.String(); a.err == nil || !strings.Contains(said, "in a bridge") ||
		!strings.Contains(said, "--mode generic") {
		t.Errorf("%v: %s", a.err, said)
	}
	if xdp.Pinned(xdp.DefaultPin(h.name(1))) {
		t.Error("it left pins")
	}
}
