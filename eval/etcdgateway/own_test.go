package etcdgateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// startGateway runs a gateway with a chain, in front of an etcd, until the test ends.
func startGateway(t *testing.T, etcd string) (address string) {
	t.Helper()
	chain, err := client.New(client.Options{Cluster: softchain.Start(t, 3, 1, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chain.Close() })
	s, err := proxy.New(t.Context(), proxy.Options{
		Listen: "127.0.0.1:0", Endpoints: []string{etcd}, Log: slog.New(slog.DiscardHandler),
		Cache: &proxy.Cache{Chain: chain, ChainName: "test", Placement: placement.Defaults()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// TestOwnEtcd compares an etcd that has keys with its gateway: its keys stay, those of the comparison go, also when it is
// interrupted, and no key is excluded from the cache.
func TestOwnEtcd(t *testing.T) {
	etcd := etcdtest.Start(t, 1, nil).Members[0].ClientURL()
	gateway := startGateway(t, etcd)
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := direct.Put(ctx, "netcraq-bench", "mine"); err != nil {
		t.Fatal(err)
	}
	o := OwnDefaults()
	o.Etcd, o.Gateways = []string{etcd}, pages.Client{Gateways: []string{gateway}, Timeout: time.Minute}
	o.Seconds, o.Rounds = 0.5, 2
	r, err := o.Run(ctx)
	if err != nil || len(r.Loads) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, l := range r.Loads {
		if l.Ratio <= 0 || l.Gateway.Errors > 0 {
			t.Errorf("%+v", l)
		}
	}
	interrupted, interrupt := context.WithCancel(ctx)
	o.Progress = func(step string) {
		if strings.HasPrefix(step, "round 2") {
			interrupt()
		}
	}
	if _, err := o.Run(interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	left, err := direct.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range left.Kvs {
		key := string(kv.Key)
		if own := strings.HasPrefix(key, engine.OwnPrefix) && !strings.Contains(key, "excluded/"); !own && key != "netcraq-bench" {
			t.Errorf("left: %s", key)
		}
	}
	o.Etcd = []string{etcdtest.Start(t, 1, nil).Members[0].ClientURL()}
	if _, err := o.Run(ctx); !errors.As(err, new(*OptionError)) {
		t.Errorf("gateways of another etcd: %v", err)
	}
}

// TestOwnEtcdThatDoesNotAnswer: the error says which side is away, without the words of etcd's client.
func TestOwnEtcdThatDoesNotAnswer(t *testing.T) {
	o := OwnDefaults()
	o.Etcd, o.Gateways = []string{"127.0.0.1:1"}, pages.Client{Gateways: []string{"127.0.0.1:2"}}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := o.Run(ctx)
	if err == nil || err.Error() != "the gateways at 127.0.0.1:2: "+errNoAnswer.Error() {
		t.Error(err)
	}
}
