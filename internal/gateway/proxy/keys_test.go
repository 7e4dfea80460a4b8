package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// TestPagesOfKeys asks two gateways which keys their clients use, and why these are cached or not.
func TestPagesOfKeys(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	o := placement.Defaults()
	o.Excluded, o.Pinned = []string{"secret/"}, []string{"pinned/"}
	a, b := startCached(t, etcd, cluster, Cache{Placement: o}), startCached(t, etcd, cluster, Cache{Placement: o})
	c := pages.Client{Gateways: []string{a.address, b.address}, Timeout: time.Minute}
	must(a.client.Put(t.Context(), "hot", "value"))(t)
	a.hot(t, "hot")
	for range 5 {
		must(a.client.Get(t.Context(), "secret/key"))(t)
		must(b.client.Get(t.Context(), "hot"))(t)
	}
	a.hot(t, "pinned/key")
	answered := func(list []pages.Explained, failed []pages.Failure, err error) []pages.Explained {
		if err != nil || len(failed) > 0 {
			t.Fatal(failed, err)
		}
		return list
	}
	for key, want := range map[string]string{
		"hot": "", "secret/key": "its prefix is excluded", "pinned/key": "its prefix is pinned", "unknown": "not among the keys",
		"/netcraq/gateway/chain": "own keys",
	} {
		list := answered(c.Explain(t.Context(), key))
		if len(list) != 2 || list[0].Gateway != a.address {
			t.Fatalf("%s: %+v", key, list)
		}
		e := list[0]
		if !strings.Contains(e.Reason, want) || e.Placed != (key == "hot" || key == "pinned/key") {
			t.Errorf("%s: %+v", key, e)
		}
	}
	keys, failed, err := c.Hottest(t.Context(), 2)
	if err != nil || len(failed) > 0 || len(keys) != 2 || !keys[0].Placed || keys[0].ReadRate <= 0 || keys[0].HitShare <= 0 || keys[0].HitShare > 1 {
		t.Errorf("%+v", keys)
	}
	plain := pages.Client{Gateways: []string{startGateway(t, Options{Endpoints: []string{etcd}})}, Timeout: time.Minute}
	if _, _, err := plain.Hottest(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "caches nothing") {
		t.Errorf("a gateway without a cache: %v", err)
	}
}

// TestNamesOfKeysNeedACertificate: if clients of the gateway need a certificate, so do those of its pages about keys. The
// pages of --metrics-addr, which ask for none, show them to clients on the gateway's machine only.
func TestNamesOfKeysNeedACertificate(t *testing.T) {
	etcd, cluster := startEtcd(t), startChain(t, 3, 1)
	info := must(transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth))(t)
	chain := must(client.New(client.Options{Cluster: cluster}))(t)
	t.Cleanup(func() { chain.Close() })
	s, _ := startServer(t, Options{
		Endpoints: []string{etcd}, Metrics: []string{"http://127.0.0.1:0", "https://127.0.0.1:0"},
		Cache:   &Cache{Chain: chain, ChainName: "test", Placement: placement.Defaults()},
		Clients: serve.TowardsClients{Cert: info.CertFile, Key: info.KeyFile, CA: info.CertFile},
	})
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(must(os.ReadFile(info.CertFile))(t))
	main, open, secure := "https://"+s.Addr().String(), "http://"+s.more[0].Addr().String(), "https://"+s.more[1].Addr().String()
	ask := func(at string) error {
		_, _, err := (&pages.Client{Gateways: []string{at}, Timeout: time.Minute, TLS: config}).Hottest(t.Context(), 1)
		return err
	}
	for _, at := range []string{main, secure} {
		if err := ask(at); err == nil {
			t.Errorf("%s shows names of keys without a certificate", at)
		}
	}
	config = config.Clone()
	config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(info.CertFile, info.KeyFile))(t)}
	for _, at := range []string{main, secure, open} {
		if err := ask(at); err != nil {
			t.Error(err)
		}
	}
	for from, want := range map[string]int{"127.0.0.1:9": http.StatusOK, "192.0.2.9:9": http.StatusForbidden} {
		for _, page := range []string{pages.PathKeys, pages.PathExplain} {
			request, answer := httptest.NewRequest(http.MethodGet, page, nil), httptest.NewRecorder()
			request.RemoteAddr = from
			s.pages(false).ServeHTTP(answer, request)
			if answer.Code != want || want != http.StatusOK && !strings.Contains(answer.Body.String(), "--cert") {
				t.Errorf("%s from %s: %d %s", page, from, answer.Code, answer.Body)
			}
		}
	}
}

// TestPinnedKeysArePlacedAtOnce: with an empty prefix, one read of a key is enough for its place.
func TestPinnedKeysArePlacedAtOnce(t *testing.T) {
	o := placement.Defaults()
	o.Pinned, o.Least = []string{""}, 1e9
	a := startCached(t, startEtcd(t), startChain(t, 3, 1), Cache{Placement: o})
	for _, key := range []string{"a", "b"} {
		must(a.client.Get(t.Context(), key))(t)
		eventually(t, "the placement of "+key, func() bool { return a.cache.Explain(key).Placed })
		before := a.cache.Stats().Hits
		must(a.client.Get(t.Context(), key))(t)
		if a.cache.Stats().Hits == before {
			t.Errorf("%s: the second read was not answered from the chain", key)
		}
	}
}
