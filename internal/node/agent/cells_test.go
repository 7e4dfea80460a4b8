package agent

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// TestDifferentCells: a node that stores other lengths than a node of its chain does not start; nodes that started
// together complain.
func TestDifferentCells(t *testing.T) {
	longer := testOptions
	longer.CellBytes *= 2
	other, err := soft.Listen(netip.MustParseAddrPort("127.1.1.1:0"), longer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	plane := listen(t)
	cluster := clusterOf(plane.Addr(), other.Addr())
	for i := range cluster.Nodes {
		cluster.Nodes[i].API = newPort(t)
	}
	var log bytes.Buffer
	options := Options{Name: "a", Cluster: cluster, Plane: plane, Log: slog.New(slog.NewTextHandler(&log, nil))}
	first, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.begin(cluster); err != nil {
		t.Fatal(err)
	}
	startAt(t, cluster.Nodes[1].API, Options{Name: "b", Plane: other}) // as if it had asked before a could answer
	const want = "a stores values of up to 64 bytes, but b up to 128"
	if first.watchCells(t.Context(), cluster); !strings.Contains(log.String(), want) {
		t.Errorf("the log says %q", log.String())
	}
	if _, err := New(options); err != nil {
		t.Errorf("a restarted agent does not take up its plane: %v", err)
	}
	options.Plane = listen(t)
	cluster.Nodes[0].Addr = options.Plane.Info().Addr
	if _, err := New(options); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a new node: %v", err)
	}
}
