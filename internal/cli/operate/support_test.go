package operate

import (
	"archive/tar"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// TestSupport packs the log, the states and the metrics of a chain that has a key. The archive has neither the key nor its
// value, nor the token and the private key in the log.
func TestSupport(t *testing.T) {
	file, dir := clitest.StartChain(t), t.TempDir()
	const key, value, token = "customers/4711", "secret-of-4711", "tok.1234567"
	clitest.MustRun(t, "put", "--cluster", file, key, value)
	log, err := os.Create(filepath.Join(dir, "node.log"))
	if err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(log, nil)).Error("refused", "key", key, "value", value, "token", token, "node", "n1")
	if _, err := log.WriteString("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n"); err != nil {
		t.Fatal(err)
	}
	log.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }))
	defer page.Close()
	out := filepath.Join(dir, "s.tar.gz")
	args := []string{"support", "--plane", "soft", "--cluster", file, "--log", log.Name(), "--unit", "", "--metrics", page.URL, "--out", out}
	clitest.MustRun(t, args...)
	parts := unpack(t, out)
	metrics := "metrics/" + inFile.Replace(page.URL) + ".txt"
	for _, name := range []string{"version.json", "doctor.json", "nodes.json", "logs/1-node.log", metrics} {
		if parts["s/"+name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	for name, text := range parts {
		for _, secret := range []string{key, value, token, "MIIEvQIBADANBg"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", name, secret)
			}
		}
	}
	if !strings.Contains(parts["s/logs/1-node.log"], "refused") || !strings.Contains(parts["s/"+metrics], "up 1") {
		t.Errorf("%v", parts)
	}
	// The agents of this chain do not run.
	if notes := parts["s/notes.txt"]; !strings.Contains(notes, "metrics of node n1: ") {
		t.Errorf("notes.txt does not say what is missing: %q", notes)
	}
	if _, code, _ := clitest.Netcraq(args...); code != cli.ExitError {
		t.Errorf("an archive is replaced: exit status %d", code)
	}
	if _, code, _ := clitest.Netcraq("support", "--plane", "soft", "--log", dir+"/none", "--unit", "", "--out", out+"2"); code != cli.ExitError {
		t.Errorf("a log that is not there: exit status %d", code)
	}
	if _, err := os.Stat(out + "2"); err == nil {
		t.Error("a part of an archive is left")
	}
}

// TestSupportFindsMetrics: of a cluster that is named the pages of metrics are found, although no process was told to
// serve one.
func TestSupportFindsMetrics(t *testing.T) {
	const host = "127.3.8.30"
	m := clitest.StartManaged(t, host, "--shards", "4", "--replicas", "1")
	m.StartNode("n1", "127.3.8.31:4411")
	m.Await("the node serves", clitest.FullyReplicated(1))
	out := filepath.Join(t.TempDir(), "s.tar.gz")
	clitest.MustRun(t, "support", "--plane", "soft", "--controllers", m.Controller, "--unit", "", "--out", out)
	parts := unpack(t, out)
	for name, metric := range map[string]string{
		"s/metrics/node-n1.txt": `netcraq_node_info{addr="127.3.8.31:4411"`, "s/metrics/controller-127.3.8.30_4413.txt": "netcraq_controller_leads 1",
	} {
		if !strings.Contains(parts[name], metric) {
			t.Errorf("%s has no %s: %s", name, metric, parts[name])
		}
	}
	if parts["s/notes.txt"] != "" {
		t.Errorf("missing: %s", parts["s/notes.txt"])
	}
	if !strings.Contains(parts["s/doctor.json"], `"check": "agent"`) {
		t.Error(parts["s/doctor.json"])
	}
}

// TestSupportFindsKeyspaces: the leader's status says where the gateways of keyspaces on disks serve their metrics. Those
// that ask for a certificate are shown the one that the user names.
func TestSupportFindsKeyspaces(t *testing.T) {
	dir := t.TempDir()
	if err := security.Make(dir, []string{"127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	cert, key, authority := security.Files(filepath.Join(dir, string(security.Controller)))
	config, err := cli.CertificatesOf(cert, key, authority)
	if err != nil {
		t.Fatal(err)
	}
	path := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	plain, secured := httptest.NewServer(path), httptest.NewUnstartedServer(path)
	defer plain.Close()
	secured.TLS = &tls.Config{Certificates: config.Certificates, ClientCAs: config.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	secured.StartTLS()
	defer secured.Close()
	addresses := []string{plain.Listener.Addr().String(), secured.Listener.Addr().String()}
	snap := &admin.Snapshot{Keyspaces: []admin.Keyspace{{Name: "k", Addresses: addresses}}}
	for _, named := range []bool{false, true} {
		s, pages := new(supportFlags), make(map[string]fetch)
		if named {
			s.doctor.etcd.Etcd = serve.TowardsEtcd{Cert: cert, Key: key, CA: authority}
		}
		if err := s.loadCertificates(); err != nil {
			t.Fatal(err)
		}
		s.addPages(pages, nil, snap, nil)
		got := ask(t.Context(), pages)
		for i, address := range addresses {
			has := string(got["keyspace "+address].text) == "/metrics"
			if want := i == 0 || named; has != want {
				t.Errorf("certificates %v, gateway %d of 2: page %v, want %v: %v", named, i+1, has, want, got["keyspace "+address].err)
			}
		}
	}
}

// unpack returns the parts of an archive by name.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]string)
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		parts[header.Name] = string(text)
	}
}
