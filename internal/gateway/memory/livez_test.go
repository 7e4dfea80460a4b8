package memory

import (
	"log/slog"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// TestStuckIsNotLive: the page of the manifests' probe fails while the gateway accepts no connection.
func TestStuckIsNotLive(t *testing.T) {
	s := must(Listen(ServerOptions{Listen: "127.0.0.1:0", Metrics: []string{"http://127.0.0.1:0"}, Options: Options{
		Chain: softchain.Connect(t, startChain(t)), LogEntries: 64, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}))(t)
	scarce := &etcdtest.Scarce{Listener: s.listener.Listener}
	s.listener.Listener, s.clients.StuckAfter = scarce, 0
	scarce.CheckLivez(t, s.Serve, s.more[0].Addr())
}
