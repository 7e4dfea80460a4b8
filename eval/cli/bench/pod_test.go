package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestPod: an agent and the plugin, as processes, serve a pod. Its reads are answered at its veth pair with the value
// that another machine wrote.
func TestPod(t *testing.T) {
	roottest.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(clitest.AsCommand, "1")
	const count = 300
	var startEtcd bench.StartEtcd
	if _, err := etcd.Find(); err == nil {
		startEtcd = startEtcdRead
	}
	r, err := bench.Pod(t.Context(), bench.PodOptions{
		Count: count, Etcd: startEtcd, ValueBytes: 16, Ready: agent.UpMessage, Plugin: []string{self},
		Agent: func(o bench.AgentOptions) []string { return append([]string{self}, nodeArguments(o)...) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadUs <= 0 || r.TCPUs <= 0 || r.FarUDPUs <= 0 || r.FarTCPUs <= 0 || !strings.Contains(r.AnsweredAt, "veth") {
		t.Errorf("%+v", r)
	}
	if (r.EtcdUs != nil) != (startEtcd != nil) || r.EtcdUs != nil && *r.EtcdUs <= 0 {
		t.Errorf("reads of etcd: %+v", r)
	}
	if r.LeftHost >= count { // a few ARP packets may
		t.Errorf("%d packets left the machine during %d reads", r.LeftHost, count)
	}
}

// TestPodOptions: options that nothing supports are refused.
func TestPodOptions(t *testing.T) {
	for _, o := range []bench.PodOptions{{Count: 0, ValueBytes: 16}, {Count: 1, ValueBytes: -1}} {
		if _, err := bench.Pod(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
