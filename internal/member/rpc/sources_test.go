package rpc

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSameSources says when etcd changes what this package repeats or links. Compare the files, and write the new sums.
func TestSameSources(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etcdserver/api/v3rpc/grpc.go": "c0fc2eb040b23bcd", "etcdserver/api/v3rpc/interceptor.go": "4c322aa6fb95133d",
		"etcdserver/api/v3rpc/health.go": "404f749057e93f7d", "etcdserver/api/v3rpc/codec.go": "89aead5cf7596d90",
		"etcdserver/api/v3rpc/maintenance.go": "64cd943016ab4977", "embed/serve.go": "733bd86588948999",
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text))[:16]; got != want {
			t.Errorf("%s is %s, not %s: take its changes over", name, got, want)
		}
	}
}
