package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// TestPlanFitsTheManifests: the manifests name machines, addresses and a device, and are applied as they are.
func TestPlanFitsTheManifests(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/manifests/netcraq.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wants := []string{"--join=" + chainControllers(), "--port-if=" + uplink, "namespace: " + namespace,
		`image: "netcraq:latest"`, "add: [BPF, PERFMON, NET_ADMIN, SYS_NICE]}"}
	for _, h := range workerHosts()[:3] {
		wants = append(wants, "--metrics="+h.addr+":", `kubernetes.io/hostname: "`+h.name+`"`)
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("the manifests do not have %s", want)
		}
	}
	if address := `"address": "169.254.77.1"`; !strings.Contains(networkConfig, address) ||
		!strings.Contains(string(text), "--pod-addr=169.254.77.1") {
		t.Error("the pods' address is another in the manifests")
	}
}

// TestServicesOfAKeyspace: its gateways run in the place of etcd's members, at their addresses. None of these runs
// while objects are moved, nor does the API server.
func TestServicesOfAKeyspace(t *testing.T) {
	names := func(s *state) (all []string) {
		for _, x := range s.controlServices() {
			all = append(all, x.name)
		}
		return all
	}
	rest := []string{managerProgram, schedulerProgram}
	s := &state{Options: Options{Name: "x", Netcraq: "netcraq", Members: 2}, Direct: true}
	for _, c := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{"etcd-1", "etcd-2", "gateway", apiProgram}},
		{func() { s.APIAway = true }, []string{"etcd-1", "etcd-2", "gateway"}},
		{func() { s.Moving = true }, []string{"gateway"}},
		{
			func() { s.Keyspace, s.Moving, s.APIAway = 2, false, false },
			[]string{"keyspace-1", "keyspace-2", "gateway", apiProgram},
		},
	} {
		c.change()
		if got, want := names(s), slices.Concat(c.want, rest); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	gateway := strings.Join(s.keyspaceServices()[1].argv, " ")
	for _, want := range []string{"netcraq keyspace --member=keyspace-2 ", " --name=kubernetes-2 ",
		" --listen=127.0.0.2:2379 ", "/keyspace-2-2 ", " --controllers " + chainControllers()} {
		if !strings.Contains(gateway, want) {
			t.Errorf("%q is missing in %s", want, gateway)
		}
	}
	if is := s.serving().Store; is != StoreKeyspace {
		t.Errorf("the store is %s", is)
	}
}

// TestChainProcesses finds a node's program below a worker's first process, however deep, and no other program.
func TestChainProcesses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "node"), []byte("read line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	above := exec.Command("bash", "-c", "echo $$; bash -c 'echo $$; exec -a "+podProgram+" bash node'; true")
	above.Dir = dir
	in, inErr := above.StdinPipe()
	out, outErr := above.StdoutPipe()
	if err := errors.Join(inErr, outErr, above.Start()); err != nil {
		t.Fatal(err)
	}
	var first, node int
	if _, err := fmt.Fscan(out, &first, &node); err != nil {
		t.Fatal(err)
	}
	s := &state{Machines: map[string]lab.Process{workerHosts()[0].name: {PID: first}}}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	err := await(ctx, func() error { // the shell becomes the node's program
		if found := s.chainProcesses(); !slices.Equal(found, []int{node}) {
			return fmt.Errorf("found %d, want %d", found, node)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), above.Wait()); err != nil {
		t.Error(err)
	}
	if found := s.chainProcesses(); len(found) > 0 {
		t.Errorf("found %d after its end", found)
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for _, h := range hosts() {
		if err := os.Mkdir(filepath.Join(dir, h.name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeCredentials(dir); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, apiCert), filepath.Join(dir, apiKey))
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AddCert(pair.Leaf)
	for _, name := range []string{controlAddr, "198.51.100.1", "kubernetes.default.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: authority}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := os.Open(filepath.Join(dir, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	users := newUsers()
	if len(rows) != len(users) {
		t.Fatalf("%d tokens of %d users", len(rows), len(users))
	}
	for i, u := range users {
		config, err := os.ReadFile(filepath.Join(dir, u.config))
		if err != nil {
			t.Error(err)
		}
		token, name, groups := rows[i][0], rows[i][1], rows[i][3]
		if !strings.Contains(string(config), token) || name != u.name || groups != u.groups || token == u.token {
			t.Errorf("%s: token of %s, groups %s; is the token new and in the configuration?", u.config, name, groups)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	roottest.Need(t)
	dir := t.TempDir()
	for name, want := range map[string]string{
		"": "name", "a-b": "name", "tooooooolong": "name", "test": "make kubernetes",
	} {
		if err := Up(t.Context(), Options{Name: name, Programs: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Up of %q: %v", name, err)
		}
	}
	if _, err := Down(t.Context(), "../x"); err == nil {
		t.Error("Down took a path as a name")
	}
	if _, err := StatusOf(t.Context(), "absent"); !errors.Is(err, ErrNotUp) {
		t.Errorf("status of no cluster: %v", err)
	}
}

// TestGroups: groups are removed with those below them, and others are not.
func TestGroups(t *testing.T) {
	roottest.Need(t)
	const name = "groupstest"
	t.Cleanup(func() {
		if err := removeGroups(context.Background(), groupOf(name, "*")); err != nil {
			t.Error(err)
		}
	})
	for _, machine := range []string{"machine-1", "machine-2"} {
		if err := makeGroup(groupOf(name, machine)); err != nil {
			t.Fatal(err)
		}
	}
	dirs, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	shares := 0
	for _, dir := range dirs {
		for file, want := range groupShares {
			have, err := os.ReadFile(filepath.Join(dir, groupOf(name, "machine-1"), file))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			shares++
			if err != nil || strings.TrimSpace(string(have)) != want {
				t.Errorf("%s in %s: %q, %v", file, dir, have, err)
			}
		}
	}
	if shares != 1 {
		t.Errorf("%d hierarchies share the CPUs, not one", shares)
	}
	service := exec.Command("sleep", "60")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	joined := joinGroup(groupOf(name, "machine-1"), service.Process.Pid)
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", service.Process.Pid))
	if joined != nil || !strings.Contains(string(in), groupOf(name, "machine-1")+"/services\n") {
		t.Errorf("a service of a machine: %v, %v, groups %s", joined, err, in)
	}
	_ = service.Process.Kill()
	_ = service.Wait()
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, groupOf(name, "machine-1"), "kubepods", "pod"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeGroups(t.Context(), groupOf(name, "machine-1")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		left, err := filepath.Glob(filepath.Join(dir, groupOf(name, "*")))
		if err != nil || len(left) != 1 || filepath.Base(left[0]) != groupOf(name, "machine-2") {
			t.Errorf("%s: left %v, %v", dir, left, err)
		}
	}
}
