package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongFilesAreExplained: errors in a cluster file name the line and the field, and no type of Go.
func TestWrongFilesAreExplained(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "it is empty: want a cluster file",
		"root:x:0:0\n":           "it is no cluster file, which has lines such as `epoch: 1`",
		"[a, b]\n":               "it is no cluster file, which has lines such as `epoch: 1`",
		"epoch: 1\nshard: 4":     "line 2: field shard not found",
		"a: 1\nb: 2\nc: 3\nd: 4": "it is no cluster file, which has lines such as",
		"epoch: soon\n":          "line 1: cannot unmarshal !!str `soon`",
		"epoch: 1\n\tx: {\n":     "it is no cluster file: yaml: line 2",
		"nodes: [{name: n1}]":    "shards: a power of two",
	} {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if err == nil || !strings.Contains(err.Error(), path+": "+want) || strings.Contains(err.Error(), "topology.") ||
			strings.Contains(err.Error(), "int") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
