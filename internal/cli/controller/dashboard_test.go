package controller

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/controller"
	"github.com/netcraq/netcraq/internal/cluster/dashboard"
	"github.com/netcraq/netcraq/internal/cluster/security"
)

// browser asks as a browser with the certificate of a role does; without a role it has none.
func browser(t *testing.T, dir string, role security.Role) *http.Client {
	t.Helper()
	cert, key, authority := security.Files(filepath.Join(dir, string(cmp.Or(role, security.Reader))))
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(text)
	if role != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: clitest.Formed}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// look asks a dashboard for a path until the answer is as wanted.
func look(t *testing.T, c *http.Client, url string, as func(text []byte) bool) {
	t.Helper()
	saw := ""
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(clitest.Formed); time.Now().Before(end); <-every.C {
		answer, err := c.Get(url)
		if err != nil {
			saw = err.Error()
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if saw = fmt.Sprintf("%s %v %s", answer.Status, err, text); answer.StatusCode == http.StatusOK && as(text) {
			return
		}
	}
	t.Fatalf("%s: %s", url, saw)
}

// TestDashboards: each controller serves the dashboard to holders of a certificate, traces reads with tags, and shows
// the next leader when the one that leads has died.
func TestDashboards(t *testing.T) {
	address := func(i int) string { return fmt.Sprintf("0.0.0.0:%d", 44970+i) }
	m, controllers, hosts, dir := secureControllers(t, "127.77.12", func(i int) []string {
		return []string{"--dashboard", address(i)}
	})
	if _, err := m.Client().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	page := func(i int, path string) string {
		return strings.Replace("https://"+address(i), "0.0.0.0", hosts[i], 1) + path
	}
	reader := browser(t, dir, security.Reader)
	leader := ""
	whole := func(text []byte) bool {
		var d dashboard.Document
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if d.Status == nil || d.Status.Leader == leader {
			return false
		}
		reported := !slices.ContainsFunc(d.Nodes, func(n dashboard.Node) bool { return n.Plane == "" })
		replicated := d.Status.Shards.FullyReplicated == 4 && len(d.Chains) > 0
		return d.Status.Leader != "" && len(d.Nodes) == 3 && reported && replicated
	}
	for i := range hosts {
		look(t, reader, page(i, "/"), func(text []byte) bool { return strings.Contains(string(text), "<title>") })
		look(t, reader, page(i, "/document.json"), whole)
		look(t, reader, page(i, "/trace?key=k"), func(text []byte) bool {
			return strings.Contains(string(text), `"version":1`)
		})
	}
	if answer, err := browser(t, dir, "").Get(page(0, "/")); err == nil {
		answer.Body.Close()
		t.Errorf("a browser without a certificate gets %s", answer.Status)
	}
	look(t, reader, page(0, "/document.json"), func(text []byte) bool {
		var d dashboard.Document
		if err := json.Unmarshal(text, &d); err == nil && d.Status != nil {
			leader = d.Status.Leader
		}
		return leader != ""
	})
	dead := slices.Index(hosts, strings.TrimSuffix(leader, ":4413"))
	clitest.Kill(controllers[dead])
	for i := range hosts {
		if i != dead {
			look(t, reader, page(i, "/document.json"), whole)
		}
	}
}

// TestWhoSeesDashboards: loopback is plain, another address needs a client certificate, and is refused without --identity.
func TestWhoSeesDashboards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{"127.0.0.1"}, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	identity, err := security.Load(filepath.Join(dir, string(security.Controller)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address  string
		identity *security.Identity
		secure   bool
		refusal  string
	}{
		{"127.0.0.1:0", nil, false, ""},
		{"localhost:0", identity, false, ""},
		{"0.0.0.0:0", identity, true, ""},
		{"0.0.0.0:0", nil, false, "give --identity, to ask browsers for a certificate, or 127.0.0.1:4420"},
		{"127.0.0.1", nil, false, "--dashboard: want host:port, such as 127.0.0.1:4420"},
		{"192.0.2.77:1", identity, false, "--dashboard: "},
	} {
		b, err := newBoard(context.Background(), c.address, "", controller.Options{Identity: c.identity})
		if c.refusal != "" {
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%s: %v", c.address, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.listener.Close()
		if got := b.secure != nil; got != c.secure {
			t.Errorf("%s is secure: %t", c.address, got)
		}
	}
	_, err = newBoard(context.Background(), "0.0.0.0:0", "", controller.Options{})
	if code := cli.ExitStatus(err, true); code != 2 {
		t.Errorf("a refusal has exit status %d", code)
	}
}
