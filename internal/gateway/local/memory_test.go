package local

import (
	"context"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// TestMemory uses a keyspace in a chain's memory with etcd's client: a key with a lease, seen by a watch.
func TestMemory(t *testing.T) {
	m, err := StartMemory("127.0.0.1:0", softchain.Start(t, 3, 1, 20_000), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.Serve(serving) }()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events := c.Watch(ctx, "present", clientv3.WithCreatedNotify())
	<-events
	lease, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "present", "n1", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if seen := <-events; len(seen.Events) != 1 || string(seen.Events[0].Kv.Value) != "n1" {
		t.Errorf("%+v", seen)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
