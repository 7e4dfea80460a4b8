package client_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/client"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// chainLength of all tests.
const chainLength = 3

var (
	key   = netchain.Key{15: 1}
	value = client.Value{1, 2, 3}
)

// open makes a network.
func open(t *testing.T, seed uint64) *fabric.Fabric {
	t.Helper()
	roottest.Need(t)
	f, err := fabric.Open(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// startNetChain makes a chain that has a place for key.
func startNetChain(t *testing.T, f *fabric.Fabric, wide bool) *client.NetChain {
	t.Helper()
	var chain []netip.Addr
	for i := range chainLength {
		n, err := netchain.New(
			netchain.Config{
				Self:       fabric.NodeAddr(i),
				Wide:       wide,
				Slots:      1,
				ValueBytes: netchain.CompareBytes,
				Groups:     1,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Insert(key, 0, make([]byte, netchain.CompareBytes)); err != nil {
			t.Fatal(err)
		}
		f.Add(fabric.NodeAddr(i), n)
		chain = append(chain, fabric.NodeAddr(i))
	}
	c, err := client.NewNetChain(chain, wide, client.Options{Listen: f.Listen, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestNetChain(t *testing.T) {
	for _, wide := range []bool{false, true} {
		c := startNetChain(t, open(t, 1), wide)
		if a, err := c.Write(t.Context(), key, value[:]); err != nil || a.Seq != 1 ||
			a.Node != fabric.NodeAddr(chainLength-1) {
			t.Fatalf("write: %+v, %v", a, err)
		}
		if a, err := c.Read(t.Context(), key); err != nil || !bytes.Equal(a.Value, value[:]) || a.Attempts != 1 {
			t.Fatalf("read: %+v, %v", a, err)
		}
		if a, swapped, err := c.CompareAndSwap(t.Context(), key, client.Value{}, client.Value{9}); err != nil ||
			swapped ||
			!bytes.Equal(a.Value, value[:]) {
			t.Fatalf("swap of something else: %+v, %v, %v", a, swapped, err)
		}
		if a, swapped, err := c.CompareAndSwap(t.Context(), key, value, client.Value{9}); err != nil || !swapped ||
			a.Seq != 2 {
			t.Fatalf("swap: %+v, %v, %v", a, swapped, err)
		}
		if _, err := c.Read(t.Context(), netchain.Key{2}); !errors.Is(err, client.ErrNotFound) {
			t.Fatalf("read of a key without a place: %v", err)
		}
	}
}

// Queries get through a network that loses much, and answers to earlier attempts are not taken for
// later ones.
func TestNetChainUnderLoss(t *testing.T) {
	const seed = 5
	f := open(t, seed)
	c := startNetChain(t, f, false)
	f.Lose(0.1)
	attempts := 0
	for i := range 200 {
		wrote := client.Value{byte(i), 1}
		a, err := c.Write(t.Context(), key, wrote[:])
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r, err := c.Read(t.Context(), key)
		if err != nil || !bytes.Equal(r.Value, wrote[:]) {
			t.Fatalf("seed %d: read %x after a write of %x: %v", seed, r.Value, wrote, err)
		}
		attempts += a.Attempts + r.Attempts
	}
	if attempts <= 400 {
		t.Errorf("seed %d: %d attempts for 400 queries that lose a part of their packets", seed, attempts)
	}
}

func TestTimeout(t *testing.T) {
	f := open(t, 1)
	startNetChain(t, f, false)
	c, err := client.NewNetChain([]netip.Addr{fabric.NodeAddr(0)}, false,
		client.Options{Listen: f.Listen, Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f.Power(fabric.NodeAddr(0), false)
	if a, err := c.Write(t.Context(), key, nil); !errors.Is(err, client.ErrTimeout) || a.Attempts < 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := client.NewNetChain(nil, false, client.Options{}); err == nil {
		t.Error("a chain without nodes")
	}
}

// A client of NetCRAQ as published turns to the next node when one is silent.
func TestNetCRAQPaperAsksNextNode(t *testing.T) {
	f := open(t, 1)
	var chain []netip.Addr
	for i := range chainLength {
		chain = append(chain, fabric.NodeAddr(i))
	}
	for i, at := range chain {
		config := netcraqpaper.Config{
			Self:     at,
			Tail:     chain[chainLength-1],
			Keys:     4,
			Versions: netcraqpaper.DefaultVersions,
		}
		if !config.IsTail() {
			config.Next = chain[i+1]
		} else {
			config.Group = chain[:i]
		}
		n, err := netcraqpaper.New(config)
		if err != nil {
			t.Fatal(err)
		}
		f.Add(at, n)
	}
	c, err := client.NewNetCRAQPaper(chain, 1, client.Options{Listen: f.Listen})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wrote := netcraqpaper.Value{7}
	if err := c.Write(t.Context(), 2, wrote); err != nil {
		t.Fatal(err)
	}
	f.Power(chain[1], false)
	for turns := range 2 {
		began := time.Now()
		got, err := c.Read(t.Context(), 2)
		if took := time.Since(began); err != nil || got != wrote || turns == 0 && took < client.RetryAfter {
			t.Fatalf("read %v after %v: %v", got, took, err)
		}
	}
}
