package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestKeyspaceKilled kills all gateways of a keyspace and all nodes of its chain at once. When the operator has accepted
// that the chain is empty, every acknowledged write is there again.
func TestKeyspaceKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m := clitest.StartManaged(t, "127.77.61.1", "--shards", "1", "--replicas", "3", "--form-with", "3")
	dir := t.TempDir()
	var kept etcdtest.Kept
	gateways := make([]*exec.Cmd, 3)
	gateway := func(i int) (address string) {
		address = fmt.Sprintf("127.77.61.%d:2379", i+2)
		gateways[i] = m.Run(address, "keyspace", "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--listen", address,
			"--controllers", m.Controller, "--name", "one")
		return address
	}
	for round := range 2 {
		for i := range gateways {
			m.StartNode(fmt.Sprintf("n%d", i), fmt.Sprintf("127.77.61.%d:4411", i+2))
		}
		for lost := round > 0; lost; {
			_, complained, status := m.Ask("accept-loss", "all", "--yes")
			if lost = status != 0; lost && ctx.Err() != nil {
				t.Fatal(complained)
			}
		}
		m.Await("a chain", clitest.FullyReplicated(3))
		for i := range gateways {
			gateway(i)
		}
		for i := range gateways {
			kept.Use(ctx, t, fmt.Sprintf("127.77.61.%d:2379", i+2))
		}
		for i, g := range gateways {
			clitest.Kill(g)
			clitest.Kill(m.Nodes[fmt.Sprintf("n%d", i)])
		}
	}
}

// TestKeyspaceGivesDisksUp: two gateways of three are lost with their disks. When the operator has given these up, the
// keyspace goes on with what the third has, and new gateways join.
func TestKeyspaceGivesDisksUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	m := clitest.StartManaged(t, "127.77.62.1", "--shards", "1", "--replicas", "1", "--form-with", "1")
	m.StartNode("n0", "127.77.62.1:4411")
	m.Await("a chain", clitest.FullyReplicated(1))
	dir := t.TempDir()
	var kept etcdtest.Kept
	var addresses []string
	var gateways []*exec.Cmd
	start := func(i int) {
		gateways[i] = m.Run(addresses[i], "keyspace", "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--listen",
			addresses[i], "--controllers", m.Controller, "--name", "one")
	}
	era := func(disks int) {
		t.Helper()
		for ctx.Err() == nil {
			s := clitest.Object[admin.Snapshot](m, "status")
			if len(s.Keyspaces) == 1 && s.Keyspaces[0].CountingDisks() == disks {
				return
			}
		}
		t.Fatalf("no era has %d disks", disks)
	}
	for i := range 3 {
		addresses, gateways = append(addresses, fmt.Sprintf("127.77.62.%d:2379", i+2)), append(gateways, nil)
		start(i)
	}
	era(3)
	for _, address := range []string{addresses[1], addresses[0]} {
		kept.Use(ctx, t, address)
	}
	for i := 1; i < 3; i++ {
		clitest.Kill(gateways[i])
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	lost := strings.Join(addresses[1:], ",")
	if said, complained, status := m.Ask("give-up-disks", "one", "--lost", lost, "--yes"); status != 0 {
		t.Fatal(said, complained)
	}
	kept.Use(ctx, t, addresses[0])
	start(1)
	start(2)
	era(3)
	for _, address := range addresses {
		kept.Use(ctx, t, address)
	}
}

// A gateway that starts before its cluster waits for it, as nodes do, and says why once.
func TestKeyspaceWaitsForItsCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const host, address = "127.77.63.1", "127.77.63.1:2379"
	log := new(lines)
	waits, ended := log.await("waiting for the cluster"), make(chan error, 1)
	serving, end := context.WithCancel(ctx)
	defer end()
	go func() {
		c := newKeyspaceCommand()
		c.SetArgs([]string{"--data-dir", t.TempDir(), "--listen", address, "--controllers", host, "--member", "one"})
		c.SetErr(log)
		ended <- c.ExecuteContext(serving)
	}()
	reached := func(what <-chan struct{}) {
		t.Helper()
		select {
		case <-what:
		case err := <-ended:
			t.Fatalf("ended: %v\n%s", err, log)
		}
	}
	reached(waits)
	m := clitest.StartManaged(t, host, "--shards", "1", "--replicas", "1", "--form-with", "1")
	reached(log.await("waits for nodes"))
	m.StartNode("n", "127.77.63.2:4411")
	reached(log.await("serves a keyspace"))
	var kept etcdtest.Kept
	kept.Use(ctx, t, address)
	if said := strings.Count(log.String(), "nothing answers there"); said != 1 {
		t.Errorf("said %d times that no controller is there:\n%s", said, log)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The command refuses what cannot be right, and says what to do.
func TestKeyspaceRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	static := "nodes: [{name: n1, addr: 127.77.61.9:4411}]\nchains: [[n1]]\nepoch: 1\nshards: 1\n"
	if err := os.WriteFile(file, []byte(static), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                 "--data-dir: name the directory",
		"--durability tape --data-dir x":   "want disk or memory",
		"--durability memory --data-dir x": "keeps nothing on disks",
		"--data-dir x --name a/b":          "--name",
		"--data-dir x --member a\x01b":     "--member",
		"--data-dir x --quota-bytes 5":     "want at least",
		"--data-dir x --cluster " + file:   "netcraq up --keyspace",
		"--controllers 127.77.61.9 --data-dir " + file + "/x": "cannot be made: name a directory",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := clitest.Execute(ctx, newKeyspaceCommand(), strings.Fields(args)...)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// filledEtcd starts an etcd with keys and leases.
func filledEtcd(ctx context.Context, t *testing.T) (*etcdtest.Member, *etcdtest.Kept) {
	t.Helper()
	plain, kept := etcdtest.Start(t, 1, nil).Members[0], new(etcdtest.Kept)
	etcdtest.Fill(ctx, t, plain.ClientURL())
	kept.Use(ctx, t, plain.ClientURL())
	return plain, kept
}

// A keyspace begins with the contents of an etcd, and a plain etcd goes on with the contents of the keyspace.
func TestImport(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plain, kept := filledEtcd(ctx, t)
	file := etcdtest.Save(ctx, t, plain.ClientURL())
	m := clitest.StartManaged(t, "127.77.67.1", "--shards", "1", "--replicas", "1")
	m.StartNode("n", "127.77.67.2:4411")
	m.Await("a chain", clitest.FullyReplicated(1))
	address := "127.77.67.2:2379"
	flags := []string{"--data-dir", filepath.Join(t.TempDir(), "disk"), "--listen", address, "--name", "one"}
	said, complained, status := m.Ask(append([]string{"keyspace", "import", "--snapshot", file}, flags...)...)
	if status != 0 || !strings.Contains(said, "begins at revision") {
		t.Fatalf("%d: %s%s", status, said, complained)
	}
	_, complained, status = m.Ask(append([]string{"keyspace", "import", "--snapshot", file}, flags...)...)
	if status == 0 || !strings.Contains(complained, "exists already") {
		t.Errorf("a second time: %d: %s", status, complained)
	}
	m.Run("gateway", append([]string{"keyspace", "--controllers", m.Controller}, flags...)...)
	etcdtest.Equal(ctx, t, plain.ClientURL(), address)
	kept.Use(ctx, t, address)
	back, _ := etcdtest.Restored(t, etcdtest.Save(ctx, t, address))
	etcdtest.Equal(ctx, t, address, back.ClientURL())
	kept.Use(ctx, t, back.ClientURL())
}

// A keyspace begins with the contents of an etcd that runs. The etcd refuses its clients from then on, until it is told
// not to.
func TestImportOfARunningEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plain, kept := filledEtcd(ctx, t)
	m := clitest.StartManaged(t, "127.77.71.1", "--shards", "1", "--replicas", "1")
	address, disk := "127.77.71.2:2379", filepath.Join(t.TempDir(), "disk")
	flags := []string{
		"--data-dir", disk, "--member", "first", "--listen", "127.77.71.2:2381", "--etcd-endpoints", plain.ClientURL(),
		"--etcd-timeout", "1m", // a busy machine does not take so long
	}
	m.StartNode("n", "127.77.71.2:4411")
	m.Await("a chain", clitest.FullyReplicated(1))
	said, complained, status := m.Ask(append([]string{"keyspace", "import"}, flags...)...)
	if status != 0 || !strings.Contains(said, "begins at revision") {
		t.Fatalf("%d: %s%s", status, said, complained)
	}
	_, err := plain.Client.Put(ctx, "late", "value")
	if err == nil || !strings.Contains(err.Error(), "user name is empty") {
		t.Errorf("a write after the import: %v, want it refused without a user", err)
	}
	_, complained, status = m.Ask(append([]string{"keyspace", "import"}, flags...)...)
	if status == 0 || !strings.Contains(complained, "authentication is enabled") {
		t.Errorf("a second time: %d: %s", status, complained)
	}
	m.Run("gateway", "keyspace", "--controllers", m.Controller, "--data-dir", disk, "--member", "first", "--listen", address)
	reopen := regexp.MustCompile(`--user root:(\S+) auth disable`).FindStringSubmatch(said)
	if reopen == nil {
		t.Fatalf("no command that lets clients in again: %s", said)
	}
	plain.DisableAuth(ctx, t, reopen[1])
	etcdtest.Equal(ctx, t, plain.ClientURL(), address)
	kept.Use(ctx, t, address)
}
