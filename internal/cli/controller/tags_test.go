package controller

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/wire"
)

// writers write to keys of their own as long as they run, one after the other. Every write has to be answered, and to be read.
type writers struct {
	m      *clitest.Managed
	c      *client.Client
	stop   chan struct{}
	ended  chan error
	went   chan struct{}
	writes atomic.Int64
	count  int
}

func startWriters(m *clitest.Managed, count int) *writers {
	w := &writers{m: m, c: m.Client(), stop: make(chan struct{}), ended: make(chan error, count), went: make(chan struct{}, 1), count: count}
	for i := range count {
		go func() { w.ended <- w.run(fmt.Sprintf("writer %d", i)) }()
	}
	return w
}

func (w *writers) run(key string) error {
	for n := uint64(1); ; n++ {
		select {
		case <-w.stop:
			return nil
		default:
		}
		wrote, err := w.c.Put(w.m.T.Context(), key, fmt.Appendf(nil, "%d", n))
		if err != nil || wrote.Version != n {
			return fmt.Errorf("%s: write %d has version %d: %w", key, n, wrote.Version, err)
		}
		v, err := w.c.Get(w.m.T.Context(), key)
		if err != nil || v.Version != n {
			return fmt.Errorf("%s: write %d is read with version %d: %w", key, n, v.Version, err)
		}
		w.writes.Add(1)
		select {
		case w.went <- struct{}{}:
		default:
		}
	}
}

// more waits until further writes went through.
func (w *writers) more() {
	w.m.T.Helper()
	for range 10*w.count + cap(w.went) { // what waits there went through before
		select {
		case err := <-w.ended:
			w.m.T.Fatal(err)
		case <-w.went:
		}
	}
}

func (w *writers) end() {
	w.m.T.Helper()
	close(w.stop)
	for range w.count {
		if err := <-w.ended; err != nil {
			w.m.T.Error(err)
		}
	}
	w.m.T.Logf("%d writes, each answered and read", w.writes.Load())
}

// TestTagsAreSwitchedUnderLoad (T6): a running cluster gets tags and loses them, and no request stays without its answer. A
// write without a tag is taken before, and refused as soon as the command has returned.
func TestTagsAreSwitchedUnderLoad(t *testing.T) {
	const host = "127.77.11.1"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, clitest.Formed); err != nil {
		t.Fatal(err)
	}
	of := func(role security.Role) string { return filepath.Join(dir, string(role)) }
	m := clitest.StartManaged(t, host, "--shards", "4", "--identity", of(security.Controller))
	var nodes []string
	for i := range 3 {
		node := fmt.Sprintf("127.77.11.%d:4411", i+2)
		nodes = append(nodes, node)
		m.Nodes[node] = m.Run(node, "node", "--name", node, "--addr", node, "--join", m.Controller, "--plane", "soft",
			"--identity", of(security.Node))
	}
	m.Follower = followAs(m, dir, security.Admin)
	m.Await("fully replicated chains", clitest.FullyReplicated(3))
	load := startWriters(m, 4)
	for round := range 2 {
		load.more()
		if !answersForged(m, round) {
			t.Error("a write without a tag is refused in a cluster without tags")
		}
		settings(m, of(security.Admin), "on", "--tags", "--wait")
		if answersForged(m, round) {
			t.Error("a write without a tag is taken in a cluster with tags")
		}
		load.more()
		settings(m, of(security.Admin), "off", "--tags=false", "--wait")
	}
	load.end()
}

// settings changes settings, and expects the tags to be as they should be then.
func settings(m *clitest.Managed, identity, tags string, change ...string) {
	m.T.Helper()
	said, complained, status := m.Ask(append([]string{"settings", "--identity", identity}, change...)...)
	if status != 0 || !regexp.MustCompile(`(?m)^tags +`+tags+` `).MatchString(said) {
		m.T.Fatalf("netcraq settings %v: status %d: %s%s", change, status, said, complained)
	}
}

// answersForged reports whether the head of a chain answers a write without a tag, which it is sent several times.
func answersForged(m *clitest.Managed, round int) bool {
	m.T.Helper()
	name := fmt.Sprintf("forged %d", round)
	key, err := wire.HashKey([]byte(name))
	if err != nil {
		m.T.Fatal(err)
	}
	newest := m.Follower.Map()
	shard := key.Shard(newest.Shards())
	chain := newest.Chain(shard)
	head := newest.Nodes[chain.Members[0]].Addr
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) // the tail answers
	if err != nil {
		m.T.Fatal(err)
	}
	defer conn.Close()
	// A client without a certificate would write so.
	put := wire.Message{Op: wire.OpPut, Shard: shard, Epoch: chain.Epoch, Key: key, Session: 1, Seq: 1, Request: 7, Value: []byte("forged")}
	var in [wire.MaxDatagramBytes]byte
	for range 10 {
		if _, err := conn.WriteToUDPAddrPort(put.Append(nil), head); err != nil {
			m.T.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(in[:]); err == nil {
			return true
		}
	}
	return false
}
