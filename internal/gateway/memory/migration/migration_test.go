package migration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// opened connects to the members of an etcd.
func opened(ctx context.Context, t *testing.T, all *etcdtest.Cluster) *Etcd {
	t.Helper()
	o := Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, m := range all.Members {
		o.Endpoints = append(o.Endpoints, m.ClientURL())
	}
	e, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// write makes random changes until the etcd refuses its clients.
func write(ctx context.Context, c *clientv3.Client, random *rand.Rand, done func()) error {
	for {
		key := fmt.Sprintf("key%02d", random.IntN(50))
		var err error
		switch random.IntN(5) {
		case 0:
			_, err = c.Delete(ctx, key, clientv3.WithRange(key+"x"))
		case 1:
			_, err = c.Txn(ctx).Then(clientv3.OpPut(key, "together"), clientv3.OpDelete(key+"/"), clientv3.OpPut(key+"x", "")).Commit()
		case 2:
			var granted *clientv3.LeaseGrantResponse
			if granted, err = c.Grant(ctx, 1000+random.Int64N(1000)); err == nil {
				_, err = c.Put(ctx, key+"/", "leased", clientv3.WithLease(granted.ID))
			}
		default:
			_, err = c.Put(ctx, key, fmt.Sprint(random.Uint64()))
		}
		if errors.Is(err, rpctypes.ErrUserEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		done()
	}
}

// Clients write while an etcd is copied. The copy is the etcd as it is afterwards: keys, history and leases.
func TestCopyBesideWrites(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd := etcdtest.Start(t, 3, nil)
	etcdtest.Fill(ctx, t, etcd.Members[0].ClientURL())
	e, seed := opened(ctx, t, etcd), seedtest.Seed(t)
	var writes atomic.Int64
	many := make(chan struct{})
	done := func() {
		if writes.Add(1) == near {
			close(many)
		}
	}
	var writers sync.WaitGroup
	for i := range 6 {
		writers.Go(func() {
			if err := write(ctx, etcd.Members[i%3].Client, rand.New(rand.NewPCG(seed, uint64(i))), done); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	select {
	case <-many:
	case <-ctx.Done():
	}
	copied, err := e.Copy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	if err := e.Reopen(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d writes, the copy is at revision %d", writes.Load(), copied.Revision())
	restored, _ := etcdtest.Restored(t, saved(t, copied))
	etcdtest.Equal(ctx, t, etcd.Members[1].ClientURL(), restored.ClientURL())
	users, err := etcd.Members[0].Client.UserList(ctx)
	if err != nil || len(users.Users) > 0 {
		t.Errorf("users %v are left: %v", users, err)
	}
}

// saved writes a copy into a file of etcdctl snapshot save.
func saved(t *testing.T, s *keyspace.Snapshot) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	tokens, err := keyspace.NewTokens("simple", time.Minute, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keyspace.Restore(&b, tokens)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close() //nolint:errcheck // it was only read
	path := filepath.Join(t.TempDir(), "db")
	if err := k.Database().Write(path); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	sum := sha256.Sum256(written)
	if err = errors.Join(err, os.WriteFile(path, append(written, sum[:]...), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// An etcd that cannot be closed is refused before anything is copied, and one that cannot be copied stays open.
func TestRefusedMigrations(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	etcd := etcdtest.Start(t, 1, nil)
	c, endpoint := etcd.Members[0].Client, etcd.Members[0].ClientURL()
	refused := func(want string) {
		t.Helper()
		_, err := Open(ctx, Options{Endpoints: []string{endpoint}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	e := opened(ctx, t, etcd)
	if _, err := c.UserAdd(ctx, "late", "password"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Copy(ctx); !errors.Is(err, errUsersChanged) || e.Closed() {
		t.Errorf("a user more: %v, closed %v", err, e.Closed())
	}
	if _, err := c.Put(ctx, "k", "v"); err != nil {
		t.Errorf("after a copy that failed: %v", err)
	}
	if _, err := c.UserAdd(ctx, root, "password"); err != nil {
		t.Fatal(err)
	}
	refused("has a user root")
	if _, err := e.Copy(ctx); !errors.Is(err, rpctypes.ErrUserAlreadyExist) || e.Closed() {
		t.Errorf("a user root of somebody else: %v, closed %v", err, e.Closed())
	}
	if _, err := c.UserGrantRole(ctx, root, root); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	refused("authentication is enabled")
}
