package kv

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// TestRootsClusterIsSaid: a command of a user who has no cluster and names none says that it uses root's.
func TestRootsClusterIsSaid(t *testing.T) {
	roottest.Need(t)
	cluster, err := os.ReadFile(clitest.StartChain(t))
	if err != nil {
		t.Fatal(err)
	}
	roots := topology.DefaultPath()
	err = thread.Do(func() error { // with a /run of its own
		if err := errors.Join(
			unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"), os.Mkdir(filepath.Dir(roots), 0o755),
			os.WriteFile(roots, cluster, 0o644),
		); err != nil {
			return err
		}
		for _, c := range []struct {
			user  uint32
			named string
			said  int
		}{{user: 12345, said: 1}, {user: 12345, named: roots}, {user: 0}} {
			command := exec.Command("/proc/self/exe", "put", "greeting", "hello", "--timeout", clitest.Formed.String())
			command.Env = []string{
				clitest.AsCommand + "=1", "XDG_RUNTIME_DIR=/run/none", topology.PathVariable + "=" + c.named,
			}
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
			var notice bytes.Buffer
			command.Stderr = &notice
			if err := command.Run(); err != nil {
				t.Errorf("user %d, cluster %q: %v\n%s", c.user, c.named, err, &notice)
			}
			want := "netcraq: using root's cluster file " + roots + ": --cluster"
			if got := notice.String(); strings.Count(got, want) != c.said || c.said == 0 && got != "" {
				t.Errorf("user %d, cluster %q: %q", c.user, c.named, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
