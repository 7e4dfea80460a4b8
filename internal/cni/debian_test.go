package cni

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

// debianPlugins is where Debian's package containernetworking-plugins has its programs.
const debianPlugins = "/usr/lib/cni"

func needDebianPlugins(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(debianPlugins, "bridge")); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs Debian's containernetworking-plugins, which CI installs: scripts/setup.sh test")
	}
	t.Skip("needs Debian's containernetworking-plugins: scripts/setup.sh test")
}

// TestBehindDebiansPlugins: the plugin works behind bridge and ptp, which speak version 1.0.0 of CNI.
func TestBehindDebiansPlugins(t *testing.T) {
	needDebianPlugins(t)
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		for i, kind := range []string{"bridge", "ptp"} {
			p := newPod(t, kind)
			ipam := fmt.Sprintf(`"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.77.%d.0/24"}]],
				"routes":[{"dst":"0.0.0.0/0"}]}`, t.TempDir(), i)
			before := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"pods","type":%q,"bridge":"cni0","isGateway":true,%s`,
				kind, ipam)
			result, stderr, err := m.run(filepath.Join(debianPlugins, kind), "ADD", p, before+"}")
			if err != nil {
				t.Fatalf("%s: %v: %s%s", kind, err, result, stderr)
			}
			own := strings.Replace(m.chained(result), "1.1.0", "1.0.0", 1)
			m.must("ADD", p, own)
			if a := m.answer(p); a.Mode != string(xdp.Native) {
				t.Errorf("behind %s the pod is served: %+v", kind, a)
			}
			p.read()
			m.must("CHECK", p, own)
			checked := before + `,"prevResult":` + result + "}"
			if _, stderr, err := m.run(filepath.Join(debianPlugins, kind), "CHECK", p, checked); err != nil {
				t.Errorf("CHECK of %s: %v: %s", kind, err, stderr)
			}
			m.must("DEL", p, own)
			m.nothingLeft(p)
			if out, stderr, err := m.run(filepath.Join(debianPlugins, kind), "DEL", p, before+"}"); err != nil {
				t.Errorf("DEL of %s: %v: %s%s", kind, err, out, stderr)
			}
		}
	})
}
