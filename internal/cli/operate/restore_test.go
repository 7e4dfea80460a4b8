package operate

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestRestoreAfterTotalLoss (G7): a cluster gives versions and fencing tokens after its backup, then all of it is lost. In
// the cluster into which the backup is restored, every token and version is above all that were given before.
func TestRestoreAfterTotalLoss(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.nqs")
	token := func(kv *client.Client) uint64 {
		t.Helper()
		lock, err := kv.TryLock(t.Context(), "job", client.LockOptions{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		return lock.Token()
	}
	put := func(kv *client.Client) uint64 {
		t.Helper()
		r, err := kv.Put(t.Context(), "config", []byte("v"))
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	start := func(host int) *clitest.Managed {
		m := clitest.StartManaged(t, fmt.Sprintf("127.3.%d.1", host), "--shards", "16", "--form-with", "3")
		for i := range 3 {
			m.StartNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.3.%d.%d:4411", host, 11+i))
		}
		m.Await("the first chains", clitest.FullyReplicated(3))
		return m
	}
	m := start(21)
	kv := m.Client()
	put(kv)
	token(kv)
	if _, complained, status := m.Ask("backup", file); status != 0 {
		t.Fatal(complained)
	}
	var highest uint64
	for range 20 {
		highest = max(put(kv), token(kv))
	}
	if said, complained, status := m.Ask("restore", file); status != 0 {
		t.Fatal(said, complained)
	}
	if version := put(kv); version > 100 {
		t.Errorf("a restore into the cluster of the backup made a jump to version %d", version)
	}
	for _, node := range m.Nodes {
		clitest.Kill(node)
	}
	m = start(22)
	kv = m.Client()
	if said, complained, status := m.Ask("restore", file); status != 0 {
		t.Fatal(said, complained)
	}
	if got, err := kv.Get(t.Context(), "config"); err != nil || string(got.Value) != "v" || got.Version <= highest {
		t.Errorf("the restored object is %q, version %d, %v; %d was given before", got.Value, got.Version, err, highest)
	}
	if version := put(kv); version <= highest {
		t.Errorf("version %d after a restore, %d before", version, highest)
	}
	if token := token(kv); token <= highest {
		t.Errorf("token %d after a restore, %d before", token, highest)
	}
}
