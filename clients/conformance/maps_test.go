package conformance

import (
	"encoding/binary"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/wire"
)

// passAt returns the script of a chain of these places.
func passAt(places ...int) script {
	return func(w *world, r *request) {
		for _, place := range places {
			if r.node == place {
				w.pass(r)
				return
			}
		}
		w.status(r, wire.StatusNotMine, 0, w.epoch)
	}
}

// awaitRequest returns when the nodes have got more than n requests.
func awaitRequest(t *testing.T, w *world, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(answered); len(w.requests()) <= n; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("no request came")
		}
	}
}

// A chain moves while a write that it executed waits for its answer: the write goes on at the new chain, and happens once.
func newerMap(t *testing.T, d *driver) {
	w, from := managed(t, d, func(w *world, r *request) { w.execute(r) }, 0)
	const line = "add key=00 delta=3"
	d.begin(t, line)
	awaitRequest(t, w, 0)
	w.move(passAt(1, 2), 2)
	from.set(w.mapOf(2, 2, 1, 2))
	if o := d.end(t, line); o.Errors != nil || o.Counter != 3 {
		t.Fatalf("%+v: the sum is 3", o)
	}
	sameWrite(t, w.requests())
	if o := d.do(t, "get key=00"); o.Errors != nil || o.Version != 1 || o.Epoch != 2 {
		t.Fatalf("%+v", o)
	}
}

// A newer map ends the wait for a node that is in the chain no more, however long an attempt may wait.
func overtaken(t *testing.T, d *driver) {
	w := newWorld(t, 3, lose)
	from := newSource(t, w.mapOf(1, 1, 0))
	opens(t, d, from, 10*plenty)
	const line = "put key=00 value=01"
	d.begin(t, line)
	awaitRequest(t, w, 0)
	w.move(passAt(1), 2)
	from.set(w.mapOf(2, 2, 1))
	must(t, d.end(t, line), 1)
}

// A refusal of an attempt counts no more once there is an attempt in a later epoch, since that one may take effect. An OK
// counts always.
func oldAnswers(t *testing.T, d *driver) {
	for _, refused := range []bool{true, false} {
		w, from := managed(t, d, func(w *world, r *request) {
			if len(w.kept) > 0 {
				return
			}
			m := replyTo(r, wire.StatusOk, 0, 1)
			if m.Version = 7; refused {
				m.Detail = uint16(wire.StatusCASFailed)
			}
			w.keep(r, m)
		}, 0)
		const line = "cas key=00 expected=0 value=01"
		d.begin(t, line)
		awaitRequest(t, w, 0)
		w.move(func(w *world, r *request) {
			w.release()
			if refused {
				w.pass(r)
			}
		}, 2)
		from.set(w.mapOf(2, 2, 1))
		must(t, d.end(t, line), map[bool]uint64{true: 1, false: 7}[refused])
	}
}

// inEpoch waits until the client's operations are answered in an epoch.
func inEpoch(t *testing.T, d *driver, epoch uint32) {
	t.Helper()
	for end := time.Now().Add(answered); ; {
		o := d.do(t, "put key=ee value=01")
		if o.Errors == nil && o.Epoch == epoch {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v: epoch %d was wanted", o, epoch)
		}
	}
}

func otherEpoch(t *testing.T, d *driver) {
	w, from := managed(t, d, pass, 0, 1, 2)
	must(t, d.do(t, "put key=00 value=01 epoch=1"), 1)
	w.move(passAt(1, 2), 2)
	from.set(w.mapOf(2, 2, 1, 2))
	inEpoch(t, d, 2)
	before := len(w.requests())
	mustFail(t, d.do(t, "put key=00 value=01 epoch=1"), "other_epoch")
	if n := len(w.requests()) - before; n > 0 {
		t.Errorf("%d messages were sent in another epoch", n)
	}
}

// Maps that cannot be, or cannot follow the present one, are not taken, and the client goes on.
func wrongMaps(t *testing.T, d *driver) {
	w, from := managed(t, d, pass, 0, 1, 2)
	w.move(passAt(1, 2), 2)
	from.set(w.mapOf(2, 2, 1, 2))
	inEpoch(t, d, 2)
	before := len(w.requests())
	for i, change := range []func(m *controllerv1.MapResponse){
		func(m *controllerv1.MapResponse) { m.Chains[0].Epoch = 1 },
		func(m *controllerv1.MapResponse) { m.Cluster = "d" },
		func(m *controllerv1.MapResponse) { m.Shards = 3 },
		func(m *controllerv1.MapResponse) { m.Shards = 1 << 31 },
		func(m *controllerv1.MapResponse) { m.Chains[0].Members[0] = 99 },
		func(m *controllerv1.MapResponse) { m.Chains[0].Members[1] = m.Chains[0].Members[0] },
		func(m *controllerv1.MapResponse) { m.Chains[0].Shards = m.Chains[0].Shards[:3] },
		func(m *controllerv1.MapResponse) { m.Chains[0].Shards = nil },
		func(m *controllerv1.MapResponse) { m.Chains[0].Learner = m.Chains[0].Members[0] },
		func(m *controllerv1.MapResponse) { m.Nodes[0].Addr = "[::1]:4411" },
		func(m *controllerv1.MapResponse) { m.Nodes[0].Addr = "x" },
		func(m *controllerv1.MapResponse) { m.Nodes[0].Id = m.Nodes[1].Id },
	} {
		version, epoch := uint64(2*i+3), uint32(i+3)
		wrong := w.mapOf(version, epoch, 0, 1)
		change(wrong)
		from.set(wrong)
		must(t, d.do(t, "put key=00 value=01"), 0)
		w.move(passAt(1, 2), epoch)
		from.set(w.mapOf(version+1, epoch, 1, 2))
		inEpoch(t, d, epoch)
	}
	for _, r := range w.requests()[before:] {
		if r.node == 0 || r.message.Epoch < 2 {
			t.Fatalf("a wrong map was taken: %+v", r)
		}
	}
	lost := w.mapOf(100, 100)
	lost.Chains[0].Lost = true
	from.set(lost)
	for end := time.Now().Add(answered); ; {
		if o := d.do(t, "get key=00 timeout=%d", short); hasError(o, "no_chain") {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%+v: no chain serves the key", o)
		}
	}
}

// The controllers that a map names are asked when the first one ends, or when a node knows a later epoch.
func otherSources(t *testing.T, d *driver) {
	for _, ends := range []bool{true, false} {
		w := newWorld(t, 3, pass)
		other := newSource(t, nil)
		first := w.mapOf(1, 1, 0)
		first.Controllers = []string{other.addr}
		one := newSource(t, first)
		opens(t, d, one, attempt)
		must(t, d.do(t, "put key=00 value=01"), 1)
		w.move(passAt(1), 2)
		other.set(w.mapOf(2, 2, 1))
		if ends {
			one.server.Stop()
		}
		must(t, d.do(t, "put key=00 value=01"), 2)
	}
}

// The map of a large cluster has more bytes than HTTP/2 sends at once.
func largeMap(t *testing.T, d *driver) {
	w := newWorld(t, 3, nil)
	m := w.mapOf(1, 1, 0)
	m.Shards, m.Chains = wire.MaxShards, nil
	for i := range uint32(256) {
		c := &controllerv1.MapChain{Epoch: 1, Members: []uint32{i%3 + 1}}
		for shard := i; shard < wire.MaxShards; shard += 256 {
			c.Shards = binary.BigEndian.AppendUint16(c.Shards, uint16(shard))
		}
		m.Chains = append(m.Chains, c)
	}
	hashed, err := wire.HashKey([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	shard := hashed.Shard(wire.MaxShards)
	place := int(shard) % 256 % 3
	w.mu.Lock()
	w.script = func(w *world, r *request) {
		if r.node == place && r.message.Shard == shard {
			m := replyTo(r, wire.StatusOk, 0, 1)
			m.Version = 9
			w.answer(r, m)
		}
	}
	w.mu.Unlock()
	opens(t, d, newSource(t, m), attempt)
	must(t, d.do(t, "put key=%s value=01", hexOf("k")), 9)
}

// Controllers with certificates are asked with one, and believed with a right one.
func identities(t *testing.T, d *driver) {
	dir, stranger := t.TempDir(), t.TempDir()
	for _, each := range []string{dir, stranger} {
		if err := security.Make(each, []string{"127.66.33.2"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(role string) *source {
		identity, err := security.Load(filepath.Join(dir, role))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, 3, pass)
		return newSource(t, w.mapOf(1, 1, 0, 1, 2), identity.ServerOptions(slog.New(slog.DiscardHandler))...)
	}
	right := serve("controller")
	open := func(s *source, identity string, timeout int) Outcome {
		return d.do(t, "open controllers=%s identity=%s attempt=%d timeout=%d", s.addr, identity, attempt, timeout)
	}
	for _, wrong := range []struct {
		server   *source
		identity string
	}{
		{right, ""}, {right, filepath.Join(stranger, "admin")}, {serve("reader"), filepath.Join(dir, "admin")},
		{right, filepath.Join(dir, "nobody")},
	} {
		if o := open(wrong.server, wrong.identity, short); o.Errors == nil {
			t.Errorf("%+v was opened", wrong)
		}
	}
	if o := open(right, filepath.Join(dir, "admin"), plenty); o.Errors != nil {
		t.Fatal(o.Text)
	}
	must(t, d.do(t, "put key=00 value=01"), 1)
	must(t, d.do(t, "get key=00"), 1)
	if err := security.Revoke(dir, []string{filepath.Join(dir, "controller", "cert.pem")}); err != nil {
		t.Fatal(err)
	}
	if o := open(right, filepath.Join(dir, "admin"), short); o.Errors == nil {
		t.Error("a controller with a revoked certificate was believed")
	}
}

// In a cluster with tags, requests have one, and only answers with the right one count. Keys change while the client runs.
func tags(t *testing.T, d *driver) {
	w := newWorld(t, 3, nil)
	w.mu.Lock()
	w.script = func(w *world, r *request) {
		if !r.tagged {
			w.t.Error("a request has no tag")
		}
		m := w.execute(r)
		forged := *m
		forged.Version, forged.Value = 99, []byte("forged!!")
		plain := forged.Append(nil)
		_, _ = w.conns[r.node].WriteToUDPAddrPort(plain, r.from)
		tagged, err := w.keys.Append(plain, wire.Ends{From: w.addrs[2-r.node]}) // the tag of another node, or wrong
		if err != nil {
			w.t.Error(err)
		}
		tagged[len(tagged)-wire.TrailerBytes] ^= 1
		_, _ = w.conns[r.node].WriteToUDPAddrPort(tagged, r.from)
		w.answer(r, m)
	}
	w.mu.Unlock()
	m := w.mapOf(1, 1, 0, 1, 2)
	m.Tags, m.TagPhase = true, uint32(wire.TagsRequired)
	from := newSource(t, m)
	m.Controllers = []string{from.addr}
	change := func(reader bool, generations ...uint32) {
		ring, response := keysOf(reader, generations...)
		w.mu.Lock()
		w.keys = ring
		w.mu.Unlock()
		from.change(func() { from.keys = response })
	}
	change(false, 1, 2)
	opens(t, d, from, attempt)
	for generation := uint32(3); generation < 6; generation++ {
		must(t, d.do(t, "put key=00 value=%s", hexOf("right")), uint64(generation)-2)
		if o := d.do(t, "get key=00"); o.Errors != nil || o.Value != hexOf("right") {
			t.Fatalf("%+v", o)
		}
		change(false, generation-1, generation)
	}
	change(true, 5, 6)
	opens(t, d, from, attempt)
	mustFail(t, d.do(t, "put key=00 value=01"), "denied")
	must(t, d.do(t, "get key=00"), 3)
}
