//go:build prometheus

package operate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// Addresses of what TestPanels runs.
const (
	panelsController = "127.3.40.1"
	panelsNode       = "127.3.40.1%d"
	panelsMember     = "127.3.40.21:2379"
	panelsEtcd       = "127.3.40.22:2379"
	panelsGateway    = "127.3.40.23:23790"
	panelsKeyspace   = "127.3.40.24:2379"
	panelsPrometheus = "127.3.40.31:9090"
)

// scrapes is the configuration of the Prometheus. As in deploy/chart, a gateway's own page has another path.
const scrapes = `
global: {scrape_interval: 1s}
scrape_configs:
  - {job_name: netcraq, static_configs: [{targets: ["%s:9413", "%s:9414", "%s:9414", "%s:9414", "%s", "%s"]}]}
  - {job_name: gateways, metrics_path: /proxy/metrics, static_configs: [{targets: ["%s"]}]}
`

// filled bounds how long a panel may stay empty.
const filled = 3 * time.Minute

// TestPanels has a Prometheus scrape a cluster with a gateway, a keyspace and a member of etcd under load, and asks it for
// each query of the dashboard for Grafana: none is empty.
func TestPanels(t *testing.T) {
	queries := panelQueries(t)
	node := func(i int) string { return fmt.Sprintf(panelsNode, i) }
	startPrometheus(t, fmt.Sprintf(scrapes, panelsController, node(1), node(2), node(3), panelsMember, panelsKeyspace, panelsGateway))

	m := clitest.StartManaged(t, panelsController, "--shards", "16", "--form-with", "2", "--metrics", panelsController+":9413")
	start := func(i int) {
		m.Run(fmt.Sprint("n", i), "node", "--name", fmt.Sprint("n", i), "--addr", node(i)+":4411", "--join", m.Controller, "--plane", "soft",
			"--metrics", node(i)+":9414")
	}
	start(1)
	start(2)
	m.Await("the first chains", clitest.FullyReplicated(2))
	startEtcd(m, "etcd", panelsEtcd, t.TempDir())
	member := t.TempDir()
	startEtcd(m, "member", panelsMember, member, "--chain-controllers="+m.Controller)
	m.Run("gateway", "gateway", "--etcd-endpoints", panelsEtcd, "--listen", panelsGateway, "--controllers", m.Controller, "--pin", "")
	m.Run("keyspace", "keyspace", "--data-dir", t.TempDir(), "--listen", panelsKeyspace, "--controllers", m.Controller)
	for _, endpoint := range []string{panelsMember, panelsGateway, panelsKeyspace} {
		useEtcd(t, endpoint)
	}
	useChain(t, m)
	start(3) // shards are copied to it
	m.Await("longer chains", clitest.FullyReplicated(3))

	ctx, cancel := context.WithTimeout(t.Context(), filled)
	defer cancel()
	if !await(ctx, t, "rate(netcraq_member_fast_reads_total[5m]) > 0") {
		t.Error("the member does not read through the chain")
	}
	clitest.MustRun(t, "etcd", "off", "--data-dir", member) // etcd answers reads from here on
	for _, q := range queries {
		if strings.Contains(q.expr, ofPorts) {
			t.Logf("not asked, as nodes on sockets have no ports: %s", q.expr)
		} else if !await(ctx, t, q.expr) {
			t.Errorf("the panel %q of %q is empty: %s", q.panel, q.row, q.expr)
		}
	}
	t.Logf("%d queries", len(queries))
}

// ofPorts is a metric that nodes with ports have, those on XDP and P4.
const ofPorts = "netcraq_node_ports_in_trouble"

// panelQuery is a query of a panel.
type panelQuery struct{ row, panel, expr string }

func panelQueries(t *testing.T) (list []panelQuery) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/chart/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	row := ""
	for _, p := range file.Panels {
		if p.Type == "row" {
			row = p.Title
		} else if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, panelQuery{row, p.Title, target.Expr})
		}
	}
	return list
}

// startPrometheus starts Debian's, which ends with the test.
func startPrometheus(t *testing.T, configuration string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+panelsPrometheus, "--log.level=error")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stdout, c.Stderr = t.Output(), t.Output()
	if err := c.Start(); err != nil {
		t.Fatalf("%v: make test-panels installs it", err)
	}
	t.Cleanup(func() { clitest.Kill(c) })
}

// startEtcd starts a cluster of one member.
func startEtcd(m *clitest.Managed, name, address, dir string, flags ...string) {
	const peer = "http://127.0.0.1:0" // there is none
	at := "http://" + address
	m.Run(name, append([]string{"etcd", "--name=m1", "--data-dir=" + dir, "--log-level=warn", "--listen-client-urls=" + at,
		"--advertise-client-urls=" + at, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=m1=" + peer}, flags...)...)
}

// useEtcd reads and writes a key through etcd's JSON API until the test ends.
func useEtcd(t *testing.T, endpoint string) {
	t.Helper()
	call := func(ctx context.Context, method, request string) { // the queries show whether it worked
		at := "http://" + endpoint + "/v3/kv/" + method
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(request))
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
		}
	}
	again(t, func(ctx context.Context, i int) {
		if i%10 == 0 {
			call(ctx, "put", `{"key": "a2V5", "value": "dg=="}`)
		}
		call(ctx, "range", `{"key": "a2V5"}`)
	})
}

// useChain reads and writes a key of the chain until the test ends.
func useChain(t *testing.T, m *clitest.Managed) {
	c := m.Client()
	again(t, func(ctx context.Context, i int) {
		_, _ = c.Put(ctx, "key", fmt.Append(nil, i))
		_, _ = c.Get(ctx, "key")
	})
}

// again calls do 20 times a second until the test ends.
func again(t *testing.T, do func(ctx context.Context, i int)) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		every := time.NewTicker(50 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			do(ctx, i)
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	}()
}

// await reports whether a query has a value before ctx ends.
func await(ctx context.Context, t *testing.T, query string) bool {
	t.Helper()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		if values, err := valuesOf(t.Context(), query); values > 0 {
			return true
		} else if ctx.Err() != nil {
			t.Logf("%s: %v", query, err)
			return false
		}
		select {
		case <-ctx.Done():
		case <-every.C:
		}
	}
}

// valuesOf is the number of series that a query has now, without those that are not a number.
func valuesOf(ctx context.Context, query string) (values int, err error) {
	at := "http://" + panelsPrometheus + "/api/v1/query?" + url.Values{"query": {query}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var page struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any } // time and text
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		return 0, err
	}
	if page.Error != "" {
		return 0, fmt.Errorf("prometheus: %s", page.Error)
	}
	for _, r := range page.Data.Result {
		if text, is := r.Value[1].(string); is && !strings.EqualFold(text, "nan") {
			values++
		}
	}
	return values, nil
}
