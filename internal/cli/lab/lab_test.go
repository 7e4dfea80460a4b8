package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

func statusOf(t *testing.T, name string) *lab.Status {
	t.Helper()
	s := new(lab.Status)
	if err := json.Unmarshal([]byte(clitest.MustRun(t, "lab", "--name", name, "status", "--json")), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLabRoundTrip(t *testing.T) {
	for _, plane := range []string{cli.PlaneSoft, cli.PlaneXDP} {
		t.Run(plane, func(t *testing.T) { testLabRoundTrip(t, plane) })
	}
}

func testLabRoundTrip(t *testing.T, plane string) {
	name := clitest.LabName(t, "r"+plane[:1])
	in := func(host string, argv ...string) string {
		t.Helper()
		return clitest.MustRun(t, append([]string{"lab", "--name", name, "exec", host, "--"}, argv...)...)
	}
	clitest.MustRun(t, "lab", "--name", name, "up", "--plane", plane, "--topology", lab.LeafSpine, "--nodes",
		"3", "--clients", "2")
	in("c1", "netcraq", "put", "k", "from c1")
	if got := strings.TrimSpace(in("c2", "netcraq", "get", "k")); got != "from c1" {
		t.Errorf("c2 reads %q", got)
	}
	if got := clitest.MustRun(t, "lab", "exec", "c1", "--name", name, "--", "echo", "--name"); got != "--name\n" {
		t.Errorf("flags after the host: %q", got)
	}
	if _, code, _ := clitest.Netcraq("lab", "--name", name, "exec", "c1", "--", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("exit status 7 came back as %d", code)
	}
	for _, h := range statusOf(t, name).Hosts {
		if h.Node != nil && (h.Node.Health != lab.HealthOK || h.Node.Plane != plane || h.Node.Objects != 1) {
			t.Errorf("%s: %+v", h.Name, h.Node)
		}
	}
	drawing := clitest.MustRun(t, "lab", "--name", name, "status")
	for _, want := range []string{"n1  head", "n2  replica", "n3  tail", "s2  spine", "c2  10."} {
		if !strings.Contains(drawing, want) {
			t.Errorf("no %q in the drawing\n%s", want, drawing)
		}
	}
	for line, want := range map[string][]string{
		"lab --name " + name + " exec ":         {"n1", "n2", "n3", "c1", "c2", "s1", "s2"},
		"lab --name " + name + " fault pause ":  {"n1", "n2", "n3"},
		"lab status --name ":                    {name},
		"lab --name " + name + " exec c1 echo ": nil,
	} {
		said := strings.Fields(clitest.MustRun(t, append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...))
		for _, host := range want {
			if !slices.Contains(said, host) {
				t.Errorf("%s does not offer %s: %v", line, host, said)
			}
		}
		if want == nil && slices.Contains(said, "n1") {
			t.Errorf("%s offers hosts: %v", line, said)
		}
	}
	clitest.MustRun(t, "lab", "--name", name, "down")
	clitest.MustRun(t, "lab", "--name", name, "down")
	if _, code, _ := clitest.Netcraq("lab", "--name", name, "status"); code == 0 {
		t.Error("a lab that is gone has a status")
	}
}

// TestSecondLab brings a lab up beside another one, which stays the default: the examples name the cluster file.
func TestSecondLab(t *testing.T) {
	first, second := clitest.LabName(t, "f"), clitest.LabName(t, "g")
	up := func(name string) string {
		return clitest.MustRun(t, "lab", "up", "--name", name, "--plane", cli.PlaneSoft, "--nodes", "1")
	}
	up(first)
	file := "/run/netcraq/labs/" + second + "/cluster.yaml"
	if said := up(second); !strings.Contains(said, "put --cluster "+file) {
		t.Errorf("the examples do not name %s: %s", file, said)
	}
	clitest.MustRun(t, "lab", "exec", "c1", "--name", second, "--", "netcraq", "put", "k", "v")
	_, code, err := clitest.Netcraq("lab", "exec", "c1", "--name", first, "--", "netcraq", "get", "k")
	if code != cli.ExitNotFound {
		t.Errorf("the first lab has the second one's key: status %d: %v", code, err)
	}
}

func TestDataPlaneOutlivesItsAgentButNotItsNode(t *testing.T) {
	name := clitest.LabName(t, "a")
	clitest.MustRun(t, "lab", "--name", name, "up", "--nodes", "1", "--clients", "1")
	fault := func(args ...string) {
		t.Helper()
		clitest.MustRun(t, append([]string{"lab", "--name", name, "fault"}, args...)...)
	}
	get := func() (string, int) {
		out, code, _ := clitest.Netcraq("lab", "--name", name, "exec", "c1", "--", "netcraq", "get", "k")
		return strings.TrimSpace(out), code
	}
	clitest.MustRun(t, "lab", "--name", name, "exec", "c1", "--", "netcraq", "put", "k", "v")
	fault("agent-kill", "n1")
	if health := nodeHealth(t, name, "n1"); health != lab.HealthNoAgent {
		t.Errorf("without an agent: %s", health)
	}
	if got, code := get(); got != "v" || code != 0 {
		t.Errorf("without an agent: %q, exit status %d", got, code)
	}
	fault("agent-start", "n1")
	if got, code := get(); got != "v" || code != 0 {
		t.Errorf("with a new agent: %q, exit status %d", got, code)
	}
	fault("node-kill", "n1")
	if health := nodeHealth(t, name, "n1"); health != lab.HealthDead {
		t.Errorf("a dead node: %s", health)
	}
	if got, code := get(); code == 0 {
		t.Errorf("a dead node answers %q", got)
	}
	fault("node-start", "n1")
	if health := nodeHealth(t, name, "n1"); health != lab.HealthOK {
		t.Errorf("started again: %s", health)
	}
}

func nodeHealth(t *testing.T, name, host string) string {
	t.Helper()
	hosts := statusOf(t, name).Hosts
	return hosts[slices.IndexFunc(hosts, func(h lab.HostStatus) bool { return h.Name == host })].Node.Health
}

func TestANodeThatIsRefusedLeavesNothing(t *testing.T) {
	name := clitest.LabName(t, "x")
	clitest.MustRun(t, "lab", "--name", name, "up", "--plane", "none", "--nodes", "1")
	pin := filepath.Join("/sys/fs/bpf/netcraq", name)
	node := []string{"lab", "--name", name, "exec", "n1", "--", "netcraq", "node", "--name", "n1", "--plane",
		cli.PlaneXDP, "--pin", pin}
	node = append(node, "--cluster", filepath.Join("/run/netcraq/labs", name, "cluster.yaml"), "--api", "192.0.2.1:1")
	out, code, err := clitest.Netcraq(node...)
	if code != cli.ExitError || !strings.Contains(fmt.Sprint(err), "192.0.2.1:1 is not on an address of this machine") {
		t.Errorf("exit status %d, %s%v", code, out, err)
	}
	if _, err := os.Stat(pin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", pin, err)
	}
}
