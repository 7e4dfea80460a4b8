package proxy

import (
	"log/slog"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestStuckIsNotLive: the page of the manifests' probe fails while the gateway accepts no connection.
func TestStuckIsNotLive(t *testing.T) {
	s := must(New(t.Context(), Options{
		Listen: "127.0.0.1:0", Metrics: []string{"http://127.0.0.1:0"}, Endpoints: []string{startEtcd(t)},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))(t)
	scarce := &etcdtest.Scarce{Listener: s.listener.Listener}
	s.listener.Listener, s.clients.StuckAfter = scarce, 0
	scarce.CheckLivez(t, s.Serve, s.more[0].Addr())
}
