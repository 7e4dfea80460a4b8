package agent

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/verify/metricspage"
	"github.com/netcraq/netcraq/wire"
)

// onPorts is a plane with ports.
type onPorts struct{ *soft.Plane }

func (onPorts) Ports() []dataplane.Port {
	return []dataplane.Port{{Name: "eth0", Attached: true, Up: true}}
}

func TestMetricsPage(t *testing.T) {
	a, err := New(Options{Name: "a", Plane: onPorts{listen(t)}, Join: joining(t, newOffice(t)), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	eventually(t, "the node calls its controller", func() bool { return len(a.membership.allLinks()) > 0 })
	metricspage.Check(t, "netcraq node", a.Metrics())
}

// scrape returns a page of metrics.
func scrape(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return string(text)
}

// TestMetricsOfANode scrapes a node that joined a controller, serves a shard and answers a read.
func TestMetricsOfANode(t *testing.T) {
	plane, o := listen(t), newOffice(t)
	o.grants.Store(int64(testLease))
	a, err := New(Options{Name: "a", Plane: plane, Metrics: "127.1.1.1:0", Join: joining(t, o), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, a)
	c := o.next()
	c.order(reconfig.Order{Term: 1, Number: 1, Configs: map[uint16]reconfig.ShardOrder{0: alone(plane, 1, chain.Active)}})
	c.done(1, 1)
	eventually(t, "the node has a lease", func() bool { return a.membership.leaseLeft() > 0 })
	read(t, plane.Addr())
	text := scrape(t, a.scrapes.Addr().String())
	for _, line := range []string{
		`netcraq_node_messages_total{op="read",outcome="answered_absent"} 1`,
		`netcraq_node_shards{role="single",state="active"} 1`,
		`netcraq_node_reads_total 1`,
		`netcraq_node_table_limit{table="objects"} 1000`,
		fmt.Sprintf(`netcraq_node_controller_connected{controller="%s"} 1`, o.address),
		`netcraq_node_order_refused 0`,
		"go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the page has no %s", line)
		}
	}
	if strings.Contains(text, "netcraq_node_lease_remaining_seconds 0") {
		t.Error("the node has a lease and exports none")
	}
}

// read reads an absent key of shard 0 and awaits the answer.
func read(t *testing.T, node netip.AddrPort) {
	t.Helper()
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(node))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	question := wire.Message{Op: wire.OpRead, Request: 1}
	for question.Key.Shard(shards) != 0 {
		question.Key.Hi++
	}
	if _, err := socket.Write(question.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.Read(make([]byte, wire.MaxDatagramBytes)); err != nil {
		t.Fatal(err)
	}
}
