package member_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/member/program"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// of is the directory of a role's certificate.
func of(certs string, role security.Role) string { return filepath.Join(certs, string(role)) }

// secureChain starts a chain with certificates and tags. It returns the directory of the certificates.
func secureChain(t *testing.T) (m *clitest.Managed, certs string) {
	t.Helper()
	const host = "127.77.14.1"
	certs = filepath.Join(t.TempDir(), "certs")
	if err := security.Make(certs, []string{host, "127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	m = clitest.StartManaged(t, host, "--shards", "1", "--tags", "--identity", of(certs, security.Controller))
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		m.Nodes[name] = m.Run(name, "node", "--name", name, "--addr", fmt.Sprintf("127.77.14.%d:4411", i+2),
			"--join", m.Controller, "--plane", "soft", "--identity", of(certs, security.Node))
	}
	return m, certs
}

// secureMember is a server with certificates for clients, peers and the chain.
type secureMember struct{ name, dir, client, peer string }

func (s *secureMember) start(m *clitest.Managed, initial, certs string) {
	cert, key, authority := security.Files(of(certs, security.Controller))
	m.Run(s.name, "etcd", "--name", s.name, "--data-dir", s.dir, "--unsafe-no-fsync", "--initial-cluster", initial,
		"--listen-client-urls", s.client, "--advertise-client-urls", s.client,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer,
		"--cert-file", cert, "--key-file", key, "--trusted-ca-file", authority, "--client-cert-auth",
		"--peer-cert-file", cert, "--peer-key-file", key, "--peer-trusted-ca-file", authority, "--peer-client-cert-auth",
		"--chain-controllers", m.Controller, "--chain-identity", of(certs, security.Operator), "--chain-pins", "")
}

// awaitReading waits until the server reads through the chain.
func (s *secureMember) awaitReading(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Formed)
	defer cancel()
	for pauses := retry.Between(10*time.Millisecond, 200*time.Millisecond); ; {
		status, err := program.Ask(ctx, s.dir, "status")
		if err == nil && status.State == "on" && status.Reading {
			return
		}
		if !pauses.Wait(ctx) {
			t.Fatalf("%s does not read through the chain: %+v, %v", s.name, status, err)
		}
	}
}

var fastReads = regexp.MustCompile(`(?m)^netcraq_member_fast_reads_total ([1-9]\d*)$`)

// TestSecureMembers: members with certificates for clients and peers read through a chain with certificates and tags.
// Clients and members without certificates are refused.
func TestSecureMembers(t *testing.T) {
	m, certs := secureChain(t)
	var all []*secureMember
	var initial []string
	for i := range 3 {
		s := &secureMember{name: fmt.Sprintf("m%d", i), dir: t.TempDir()}
		s.client, s.peer = "https://"+etcdtest.FreePort(t), "https://"+etcdtest.FreePort(t)
		all, initial = append(all, s), append(initial, s.name+"="+s.peer)
	}
	for _, s := range all {
		s.start(m, strings.Join(initial, ","), certs)
	}
	cert, key, authority := security.Files(of(certs, security.Admin))
	secure, err := transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: authority}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	var clients []*clientv3.Client
	for _, s := range all {
		s.awaitReading(t)
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.client}, TLS: secure})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Formed)
	defer cancel()
	for i := range 30 {
		value := fmt.Sprint(i)
		if _, err := clients[i%3].Put(ctx, "k", value); err != nil {
			t.Fatal(err)
		}
		if r, err := clients[(i+1)%3].Get(ctx, "k"); err != nil || string(r.Kvs[0].Value) != value {
			t.Fatalf("after a put of %s: %v, %v", value, r, err)
		}
	}
	pages := http.Client{Transport: &http.Transport{TLSClientConfig: secure}}
	for _, s := range all {
		answer, err := pages.Get(s.client + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !fastReads.Match(text) {
			t.Errorf("%s has answered no read through the chain: %v", s.name, err)
		}
	}
	bare := secure.Clone()
	bare.Certificates, bare.GetClientCertificate = nil, nil
	stranger := http.Client{Transport: &http.Transport{TLSClientConfig: bare}}
	for _, url := range []string{all[0].client + "/metrics", all[0].peer + "/version"} {
		if answer, err := stranger.Get(url); err == nil {
			answer.Body.Close()
			t.Errorf("%s answers a client without a certificate", url)
		}
	}
}
