package lab

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// TestChaos is the short form of `netcraq lab chaos`: it expects no acknowledged write to be lost
// under any fault. Nodes are suspected later than by default, because the test machine may be busy.
func TestChaos(t *testing.T) { trial(t) }

// TestChaosWithLostState restarts nodes without their state, before their silence is noticed, and replaces controllers
// that lost their disks.
func TestChaosWithLostState(t *testing.T) {
	r := trial(t, "--faults", "node_emptied,controller_replaced")
	if r.Faults["node_emptied"] == 0 || r.Faults["controller_replaced"] == 0 {
		t.Errorf("the faults were %v", r.Faults)
	}
}

// TestChaosWithRemovedControllers removes controllers while clients work, and adds them again.
func TestChaosWithRemovedControllers(t *testing.T) {
	if r := trial(t, "--faults", "controller_removed"); r.Faults["controller_removed"] == 0 {
		t.Errorf("the faults were %v", r.Faults)
	}
}

// TestChaosWithSwitches kills and empties P4 switches in chains with XDP nodes.
func TestChaosWithSwitches(t *testing.T) {
	enginetest.Need(t)
	r := trial(t, "--plane", "p4packets,p4,xdp,p4runtime", "--nodes", "4", "--faults", "node_kill,node_emptied")
	if r.Faults["node_kill"] == 0 {
		t.Errorf("the faults were %v", r.Faults)
	}
}

// TestGatewayChaos is the short form of `netcraq lab chaos --gateway`: gateways, nodes, controllers and members of etcd fail, and
// clients see nothing that etcd did not do.
func TestGatewayChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	name := clitest.LabName(t, "g")
	out, code, err := clitest.Netcraq("lab", "chaos", "--gateway", "--name", name, "--minutes", "0.6", "--seed", "1", "--json", "--beat",
		"20ms", "--suspect", "200ms", "--lease", "300ms")
	var r chaos.GatewayResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != 0 {
		t.Fatalf("exit status %d, %v, %v", code, jsonErr, err)
	}
	if r.Violations != 0 || r.Answered == 0 || r.Events == 0 || len(r.Faults) == 0 || r.NearbyHits == 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", r)
}

// TestMemoryChaos is the short form of `netcraq lab chaos --memory`: gateways of a keyspace in memory, nodes and controllers fail.
func TestMemoryChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	name := clitest.LabName(t, "m")
	out, code, err := clitest.Netcraq("lab", "chaos", "--memory", "--name", name, "--minutes", "0.08", "--seed", "3", "--json", "--beat",
		"20ms", "--suspect", "200ms", "--lease", "300ms", "--faults", "gateway_kill,gateway_pause,partition_gateway,node_kill")
	var r chaos.GatewayResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != 0 {
		t.Fatalf("exit status %d, %v, %v", code, jsonErr, err)
	}
	if r.Violations != 0 || r.Answered == 0 || r.Events == 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", r)
}

// A trial whose servers do not start says so, and removes its lab.
func TestFailedTrialsSayWhy(t *testing.T) {
	asProduct(t)
	flags := chaosFlags{ManagedFlags: ManagedDefaults(), minutes: 1, clients: 1}
	flags.Shards = 4
	name := clitest.LabName(t, "f")
	o, err := flags.Options(name)
	if err != nil {
		t.Fatal(err)
	}
	trial := chaos.GatewayOptions{
		ServedOptions: flags.served(name, o, NewShow(io.Discard)),
		Gateway:       func(*lab.Lab, lab.Host) []string { return []string{"/dev/null"} },
	}
	trial.Logs, trial.Address, trial.HistoryAddress = t.TempDir(), gatewayAddress, gatewayAddress
	if _, err := chaos.Gateways(t.Context(), trial); err == nil || !strings.Contains(err.Error(), "/dev/null") {
		t.Fatalf("%v, want the name of the program that cannot be started", err)
	}
	if _, err := lab.Open(name); err == nil {
		t.Errorf("the lab %s is still there", name)
	}
}

// asProduct makes the test binary the product that this process finds.
func asProduct(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, cli.ProductName)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(clitest.AsCommand, "1")
}

// TestKeyspaceChaos is the short form of `netcraq lab chaos --keyspace`: all gateways are killed at once, or one loses
// its disk.
func TestKeyspaceChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	out, code, err := clitest.Netcraq("lab", "chaos", "--keyspace", "--name", clitest.LabName(t, "k"), "--seed", "2", "--json",
		"--minutes", "0.25", "--shards", "4", "--beat", "20ms", "--suspect", "200ms", "--lease", "300ms",
		"--faults", "gateways_kill,disk_emptied,disk_damaged")
	var r chaos.KeyspaceResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != 0 {
		t.Fatalf("exit status %d, %v, %v", code, jsonErr, err)
	}
	if r.Violations != 0 || r.Answered == 0 || r.Events == 0 || len(r.Faults) == 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", r)
}

// TestMemberChaos is the short form of `netcraq lab chaos --member`: members of etcd that read through the chain fail,
// and nodes and controllers do.
func TestMemberChaos(t *testing.T) {
	r, code, err := memberTrial(t, "--operations", "4000", "--minutes", "10")
	if code != 0 {
		t.Fatal(err)
	}
	if r.Violations != 0 || r.Answered == 0 || r.Events == 0 || len(r.Faults) == 0 || r.FastReads == 0 || r.Pushes == 0 {
		t.Errorf("%+v", r)
	}
}

// TestMemberChaosNotices: members that show revisions before the chain has them are noticed.
func TestMemberChaosNotices(t *testing.T) {
	r, code, _ := memberTrial(t, "--operations", "1500", "--minutes", "10", "--without", "push", "--faults", "member_pause")
	if code != cli.ExitError || r.Violations == 0 || r.FastReads == 0 {
		t.Errorf("exit status %d, %+v", code, r)
	}
}

func memberTrial(t *testing.T, args ...string) (r chaos.MemberResult, code int, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	out, code, err := clitest.Netcraq(append([]string{"lab", "chaos", "--member", "--name", clitest.LabName(t, "e"), "--seed", "1", "--json",
		"--beat", "20ms", "--suspect", "200ms", "--lease", "300ms"}, args...)...)
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil {
		t.Fatalf("exit status %d, %v, %v", code, jsonErr, err)
	}
	t.Logf("%+v", r)
	return r, code, err
}

// trial runs `netcraq lab chaos` for a short time.
func trial(t *testing.T, args ...string) chaos.ChaosResult {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	name := clitest.LabName(t, "h")
	out, code, err := clitest.Netcraq(append([]string{"lab", "chaos", "--name", name, "--minutes", "0.6", "--seed", "1",
		"--json", "--beat", "20ms", "--suspect", "200ms", "--lease", "300ms"}, args...)...)
	var r chaos.ChaosResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != 0 {
		t.Fatalf("exit status %d, %v, %v", code, jsonErr, err)
	}
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	if !r.Linearizable || r.LostAcknowledged != 0 || r.Acknowledged == 0 || faults == 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%d operations, %d acknowledged writes, %d faults, %d changes of the cluster", r.Ops,
		r.Acknowledged, faults, r.Changes)
	return r
}

func TestImpossibleTrialsAreRefused(t *testing.T) {
	for _, args := range []string{
		"lab chaos --minutes 0", "lab chaos --clients 0", "lab chaos --loss 101", "lab chaos --controllers 0",
		"lab chaos --nodes 2",
		"lab busy --stopped 1", "lab busy --objects 0", "lab busy --burners-per-cpu -1", "lab chaos --plane none",
		"lab rollout --rounds 0", "lab rollout --away -1s", "lab rollout --objects 0", "lab rollout --nodes 3",
		"lab chaos --shards 3", "bench failover --rounds 0", "bench join --objects 0", "bench join --nodes 1",
		"lab up --controllers 3", "lab fault partition n1|n2>n3",
	} {
		out, code, err := clitest.Netcraq(strings.Fields(args)...)
		if code != cli.ExitUsage && !(code == cli.ExitError && strings.Contains(args, "fault")) {
			t.Errorf("%s: exit status %d, %s%v", args, code, out, err)
		}
	}
}
