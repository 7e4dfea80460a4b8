package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client/follow"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// certified makes all hosts of a lab show certificates, which it makes.
func certified(t *testing.T, o *lab.Options) (of func(security.Role) string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	of = func(role security.Role) string { return filepath.Join(dir, string(role)) }
	var once sync.Once
	with := func(role security.Role, command func(*lab.Lab, lab.Host) []string) func(*lab.Lab, lab.Host) []string {
		return func(l *lab.Lab, h lab.Host) []string {
			once.Do(func() { // only now the addresses are known
				var hosts []string
				for _, c := range l.Plan.With(lab.RoleController) {
					hosts = append(hosts, c.Addr.String())
				}
				if err := security.Make(dir, hosts, clitest.Formed); err != nil {
					t.Error(err)
				}
			})
			return append(command(l, h), "--identity", of(role))
		}
	}
	o.TLS = true
	o.Controller, o.Agent = with(security.Controller, o.Controller), with(security.Node, o.Agent)
	return of
}

// TestTagsAreSwitchedInALab (T6): XDP nodes behind real wires get tags and lose them under load, and no request stays without
// its answer.
func TestTagsAreSwitchedInALab(t *testing.T) {
	roottest.Need(t)
	asProduct(t)
	flags := ManagedDefaults()
	flags.Nodes, flags.controllers, flags.Shards, flags.Objects = 4, 1, 8, 1000
	o, err := flags.Options(fmt.Sprintf("t%d", os.Getpid()%100_000))
	if err != nil {
		t.Fatal(err)
	}
	of := certified(t, &o)
	l, err := lab.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, h := range l.Plan.With(lab.RoleNode) {
				t.Logf("%s: %s", h.Name, l.LastWords(h.Name))
			}
		}
		if _, err := lab.Down(context.WithoutCancel(t.Context()), l.Name); err != nil {
			t.Error(err)
		}
	})
	m := &clitest.Managed{T: t, Controller: l.Controllers()[0]}
	identity, err := security.Load(of(security.Admin))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Formed)
	defer cancel()
	m.Follower, err = follow.Open(ctx, follow.Options{Addrs: l.Controllers(), Dial: []grpc.DialOption{identity.DialOption()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Follower.Close() })
	m.Await("fully replicated chains", clitest.FullyReplicated(flags.Replicas))
	load := clitest.StartWriters(m, 4)
	clitest.SwitchTags(m, load, of(security.Admin), "forged")
	load.More()
	load.End()
}
