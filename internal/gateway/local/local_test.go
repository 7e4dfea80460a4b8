package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLocal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	e, err := Start(t.Context(), "127.0.0.1:0", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "greeting", "hello"); err != nil {
		t.Error(err)
	}
	if r, err := c.Get(t.Context(), "greeting"); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "hello" {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := Start(t.Context(), e.Addr().String(), nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("two gateways listen on one address")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(e.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left behind: %v", e.dir, err)
	}
}
