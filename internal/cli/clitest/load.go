package clitest

import (
	"fmt"
	"net"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/wire"
)

// Writers write to keys of their own as long as they run, one after the other. Every write has to be answered, and to be read.
type Writers struct {
	m      *Managed
	c      *client.Client
	stop   chan struct{}
	ended  chan error
	went   chan struct{}
	writes atomic.Int64
	count  int
}

// StartWriters starts the load.
func StartWriters(m *Managed, count int) *Writers {
	w := &Writers{m: m, c: m.Client(), stop: make(chan struct{}), ended: make(chan error, count), went: make(chan struct{}, 1), count: count}
	for i := range count {
		go func() { w.ended <- w.run(fmt.Sprintf("writer %d", i)) }()
	}
	return w
}

// answered is how long an operation may take: on a busy machine a node may not run for a second.
const answered = 20 * time.Second

func (w *Writers) run(key string) error {
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

// More waits until further writes went through.
func (w *Writers) More() {
	w.m.T.Helper()
	for range 10*w.count + cap(w.went) { // what waits there went through before
		select {
		case err := <-w.ended:
			w.m.T.Fatal(err)
		case <-w.went:
		}
	}
}

// End ends the load, and expects that every write was answered and read.
func (w *Writers) End() {
	w.m.T.Helper()
	close(w.stop)
	for range w.count {
		if err := <-w.ended; err != nil {
			w.m.T.Error(err)
		}
	}
	w.m.T.Logf("%d writes, each answered and read", w.writes.Load())
}

// Settings changes settings, and expects the tags to be as they should be then.
func Settings(m *Managed, identity, tags string, change ...string) {
	m.T.Helper()
	said, complained, status := m.Ask(append([]string{"settings", "--identity", identity}, change...)...)
	if status != 0 || !regexp.MustCompile(`(?m)^tags +`+tags+` `).MatchString(said) {
		m.T.Fatalf("netcraq settings %v: status %d: %s%s", change, status, said, complained)
	}
}

// AnswersForged reports whether the head of a chain answers a write without a tag, which it is sent several times.
func AnswersForged(m *Managed, name string) bool {
	m.T.Helper()
	key, err := wire.HashKey([]byte(name))
	if err != nil {
		m.T.Fatal(err)
	}
	newest := m.Follower.Map()
	shard := key.Shard(newest.Shards())
	chain := newest.Chain(shard)
	head := newest.Nodes[chain.Members[0]].Addr
	conn, err := net.ListenUDP("udp4", nil) // the tail answers
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

// SwitchTags switches the tags of a cluster on and off again under load (T6). A write without a tag is taken before, and
// refused as soon as the command has returned.
func SwitchTags(m *Managed, load *Writers, identity, forged string) {
	m.T.Helper()
	load.More()
	if !AnswersForged(m, forged) {
		m.T.Error("a write without a tag is refused in a cluster without tags")
	}
	Settings(m, identity, "on", "--tags", "--wait")
	if AnswersForged(m, forged) {
		m.T.Error("a write without a tag is taken in a cluster with tags")
	}
	load.More()
	Settings(m, identity, "off", "--tags=false", "--wait")
}
