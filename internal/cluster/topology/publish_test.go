package topology

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func oneNode(name string) *Cluster {
	return &Cluster{Epoch: 1, Shards: 1, Chains: [][]string{{name}},
		Nodes: []Node{{Name: name, Addr: netip.MustParseAddrPort("192.0.2.1:4411")}}}
}

func TestPublishedClusterIsFoundAndWithdrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "cluster.yaml")
	withdraw, err := Publish(path, oneNode("a"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil || c.Nodes[0].Name != "a" {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := Publish(path, oneNode("b")); !errors.Is(err, ErrTaken) {
		t.Errorf("a second cluster in the same place: %v", err)
	}
	if err := PublishLink(path, "elsewhere"); !errors.Is(err, ErrTaken) {
		t.Errorf("a link in the same place: %v", err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory is left behind")
	}
}

func TestWhatDeadClustersLeftIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "target.yaml")
	// A file without a holder, as after SIGKILL.
	if err := os.WriteFile(path, []byte(publishedMark+"epoch: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := PublishLink(path, target); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(path, oneNode("a")); !errors.Is(err, ErrTaken) {
		t.Errorf("in place of a link to a cluster that is there: %v", err)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if withdraw, err := Publish(path, oneNode("a")); err != nil {
		t.Errorf("in place of a link to nothing: %v", err)
	} else if err := withdraw(); err != nil {
		t.Error(err)
	}
}

func TestFilesOfPeopleAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte("epoch: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(path, oneNode("a")); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if err := WithdrawLink(path, "elsewhere"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
