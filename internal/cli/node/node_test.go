package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// freeAddr returns a loopback address whose UDP and TCP port are unused.
func freeAddr(t *testing.T) (netip.AddrPort, string) {
	t.Helper()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, 3, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp4", "127.2.3.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	return udp.LocalAddr().(*net.UDPAddr).AddrPort(), tcp.Addr().String()
}

// clusterFile writes a cluster of one chain, of nodes that do not run yet.
func clusterFile(t *testing.T, names ...string) string {
	t.Helper()
	c := topology.Cluster{Epoch: 1, Shards: 4, Chains: [][]string{names}}
	for _, name := range names {
		addr, api := freeAddr(t)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: addr, API: api})
	}
	text, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startNode runs `netcraq node` until the test ends.
func startNode(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, log, err := clitest.Execute(ctx, newNodeCommand(), args...)
		if err == nil && !strings.Contains(log, "node stopped") {
			err = fmt.Errorf("the log does not say that the node stopped: %s", log)
		}
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func inspectAll(t *testing.T, args ...string) ([]agent.Report, error) {
	t.Helper()
	out, _, failed := clitest.Execute(t.Context(), newInspectCommand(), append(args, "--json", "--timeout", "1m")...)
	var result struct{ Nodes []agent.Report }
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := decoder.Token(); err != io.EOF {
		t.Fatalf("more than one object: %s", out)
	}
	return result.Nodes, failed
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(clitest.Formed); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within %v", what, clitest.Formed)
		}
	}
}

func TestNodeAndInspect(t *testing.T) {
	path := clusterFile(t, "n1", "n2", "n3")
	for _, name := range []string{"n1", "n2"} {
		startNode(t, "--name", name, "--cluster", path, "--plane", "soft", "--accept-data-loss")
	}
	await(t, "both nodes serve", func() bool {
		nodes, err := inspectAll(t, "n1", "n2", "--cluster", path)
		return err == nil && len(nodes[0].Chains) == 1 && len(nodes[1].Chains) == 1
	})
	nodes, err := inspectAll(t, "--cluster", path)
	if err == nil || !strings.Contains(err.Error(), "1 of 3 agents did not answer") {
		t.Errorf("error is %v", err)
	}
	if len(nodes) != 3 || nodes[0].Name != "n1" || nodes[0].Plane != "soft" || nodes[2].Error == "" {
		t.Fatalf("nodes are %+v", nodes)
	}
	if c := nodes[1].Chains; len(c) != 1 || len(c[0].Shards) != 4 || len(c[0].Members) != 3 || c[0].State != "active" {
		t.Errorf("chains are %+v", c)
	}
	for _, args := range [][]string{{}, {"--key", "fruit"}} {
		args = append(args, "--cluster", path, "--timeout", "1m", "n1", "n2")
		out, _, err := clitest.Execute(t.Context(), newInspectCommand(), args...)
		if err != nil || !strings.Contains(out, "n1") || !strings.Contains(out, "n2") {
			t.Errorf("%v: %s (%v)", args, out, err)
		}
	}
}

// TestInspectShowsWaiting: a node without state says for which others it waits (C10).
func TestInspectShowsWaiting(t *testing.T) {
	path := clusterFile(t, "n1", "n2", "n3")
	startNode(t, "--name", "n1", "--cluster", path, "--plane", "soft")
	await(t, "the node answers", func() bool {
		_, err := inspectAll(t, "n1", "--cluster", path)
		return err == nil
	})
	out, _, err := clitest.Execute(t.Context(), newInspectCommand(), "--cluster", path, "--timeout", "1m", "n1")
	if err != nil || !strings.Contains(out, "waits for n2, n3") {
		t.Errorf("%s (%v)", out, err)
	}
}

// TestNoFallbackFromXDP: a misspelt interface does not turn a fast node into a slow one.
func TestNoFallbackFromXDP(t *testing.T) {
	addr, api := freeAddr(t)
	for _, c := range []struct{ args, wants []string }{
		{[]string{"--port-if", "nq-none"}, []string{"nq-none"}},
		{[]string{"--mode", "native"}, []string{"are for xdp", "loopback"}},
		{[]string{"--mode", "generic"}, []string{"are for xdp", "loopback"}},
	} {
		if os.Geteuid() != 0 {
			c.wants = []string{"xdp needs root"}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		args := append([]string{"--name", "n1", "--addr", addr.String(), "--api", api, "--pin",
			"/sys/fs/bpf/nq-test-none"}, c.args...)
		_, _, err := clitest.Execute(ctx, newNodeCommand(), args...)
		cancel()
		if err == nil || cli.ExitStatus(err, true) != cli.ExitError {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.args, err, want)
			}
		}
	}
}

// TestRemove: --remove reports a pin that it cannot examine, removes the pins of an interrupted start, and refuses a
// directory with foreign files.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	half, foreign := filepath.Join(dir, "half"), filepath.Join(dir, "foreign")
	file := filepath.Join(foreign, "letter")
	if err := errors.Join(os.Mkdir(half, 0o700), os.Mkdir(foreign, 0o700), os.WriteFile(file, nil, 0o600),
		os.WriteFile(filepath.Join(half, "nq_objects"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for pin, want := range map[string]string{filepath.Join(file, "x"): "not a directory", foreign: "holds letter",
		half: "", half + "2": ""} {
		_, _, err := clitest.Execute(t.Context(), newNodeCommand(), "--remove", "--pin", pin)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pin, err, want)
		}
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a data plane is left: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestNodeErrors(t *testing.T) {
	path := clusterFile(t, "n1")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "give --name"},
		{[]string{"--remove"}, "give --name, or --pin"},
		{[]string{"--name", "n1"}, "give --cluster, or --addr"},
		{[]string{"--name", "n9", "--cluster", path}, `has no node "n9"`},
		{[]string{"--name", "n1", "--cluster", path + "x"}, "no such file"},
		{[]string{"--name", "n1", "--addr", "n1"}, "is not an IPv4 address and port"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--plane", "fast"}, "want auto, soft, xdp or p4"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--mode", "fast"}, "want auto, native or generic"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--plane", "soft", "--cell-bytes", "4"}, "8 to 1352 bytes"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--plane", "soft", "--shards", "3"}, "power of two"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--plane", "soft", "--cluster", path}, "but its data plane is at"},
		{[]string{"--name", "n1", "--addr", "127.2.3.1:0", "--plane", "soft", "--api", "203.0.113.9:1"},
			"choose another with --api"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, _, err := clitest.Execute(ctx, newNodeCommand(), c.args...)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error is %v, want %q", c.args, err, c.want)
		}
	}
}

// TestNodeChecksBeforeItWaits: what no controller can change is wrong at once, not when one answers.
func TestNodeChecksBeforeItWaits(t *testing.T) {
	for want, args := range map[string][]string{
		`--plane "xpd": want auto, soft, xdp or p4`:                {"--plane", "xpd"},
		`--mode "fast": want auto, native or generic`:              {"--mode", "fast"},
		`--metrics "foo" is not an address and port`:               {"--metrics", "foo"},
		`--api "foo" is not an address and port`:                   {"--api", "foo"},
		`node name "n 1": letters`:                                 {"--name", "n 1"},
		`--addr "[::1]:4411" is not an IPv4 address and port`:      {"--addr", "[::1]:4411"},
		`--addr "127.1.3.9" is not an IPv4 address and port`:       {"--addr", "127.1.3.9"},
		`--switch 127.0.0.1:9559 is for --plane p4`:                {"--switch", "127.0.0.1:9559"},
		`the address of the node is missing: give --cluster, or`:   {"--addr", ""},
		`--join: "127.0.0.1:x" is not a host and port, such as`:    {"--join", "127.0.0.1:x"},
		`--cluster and --join exclude each other: a node gets its`: {"--cluster", "x.yaml"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		args = append([]string{"--name", "n1", "--addr", "127.1.3.9:4411", "--plane", "soft", "--join", "127.0.0.1:1"}, args...)
		_, log, err := clitest.Execute(ctx, newNodeCommand(), args...)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitStatus(err, true) != cli.ExitUsage {
			t.Errorf("%s: %v, want %s: %s", args, err, want, log)
		}
	}
}

// TestNodeSaysThatItsAddressIsElsewhere: a mistyped address shows before a controller answers.
func TestNodeSaysThatItsAddressIsElsewhere(t *testing.T) {
	for flag, args := range map[string][]string{
		"--addr=192.0.2.77:4411":    {"--addr", "192.0.2.77:4411"},
		"--metrics=192.0.2.77:9414": {"--metrics", "192.0.2.77:9414"},
		"":                          {},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		args = append([]string{"--name", "n1", "--addr", "127.1.3.9:4411", "--plane", "soft", "--join", "127.0.0.1:1"}, args...)
		_, log, err := clitest.Execute(ctx, newNodeCommand(), args...)
		cancel()
		const warning = "this machine does not have the address"
		if err != nil || strings.Contains(log, warning) != (flag != "") || !strings.Contains(log, flag) {
			t.Errorf("%s: %v, log: %s", args, err, log)
		}
	}
}
