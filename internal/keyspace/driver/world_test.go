package driver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
	"github.com/netcraq/netcraq/internal/keyspace/local"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// patience is missed only by a broken machine.
const patience = 2 * time.Minute

// world has gateways in one process, with disks of their own, and a chain on sockets.
type world struct {
	t   *testing.T
	ctx context.Context
	log *logs
	dir string

	poll       time.Duration // of gateways that start; 0: as usual
	recover    time.Duration // likewise
	checkpoint int64         // likewise
	near       *local.Near
	gateways   map[string]*gateway // those that run
	terms      uint64
	acked      []string
}

type gateway struct {
	*driver.Driver
	m    *machine
	stop context.CancelFunc
	done chan error
}

func newWorld(t *testing.T, ring int) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	near, err := local.Open("")
	if err != nil {
		t.Fatal(err)
	}
	chain := softchain.Connect(t, softchain.Start(t, 3, 4, 10_000))
	return &world{
		t: t, ctx: ctx, log: &logs{Eras: chainlog.NewEras(chain, nil, "default", 7, ring)}, dir: t.TempDir(),
		near: near, gateways: make(map[string]*gateway), checkpoint: 4 << 10,
	}
}

// logs can be made unreadable, and a chain may have room for some only.
type logs struct {
	*chainlog.Eras
	away atomic.Bool

	mu   sync.Mutex
	room int // 0: for all
	made []uint64
}

func (l *logs) Make(ctx context.Context, era, first uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.made, era) {
		if l.room > 0 && len(l.made) >= l.room {
			return errors.New("the chain is full")
		}
		l.made = append(l.made, era)
	}
	return l.Eras.Make(ctx, era, first)
}

func (l *logs) Remove(ctx context.Context, era uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = slices.DeleteFunc(l.made, func(made uint64) bool { return made == era })
	return l.Eras.Remove(ctx, era)
}

func (l *logs) Cells(ctx context.Context, era, index uint64, n int) ([]driver.Cell, error) {
	if l.away.Load() {
		return nil, errors.New("the chain does not answer")
	}
	return l.Eras.Cells(ctx, era, index, n)
}

// machine has a list of batches.
type machine struct {
	mu   sync.Mutex
	all  []string
	b    driver.Batches
	last uint64
}

func (m *machine) Restore(index uint64, state io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all, m.last = nil, index
	m.b.Reset(index)
	lines := bufio.NewScanner(state)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m.all = append(m.all, lines.Text())
	}
	return lines.Err()
}

func (m *machine) Apply(first uint64, entries []journal.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first != m.last+1 {
		return fmt.Errorf("entry %d after %d", first, m.last)
	}
	for i, e := range entries {
		m.last = first + uint64(i)
		if batch, complete := m.b.Take(m.last, e.Payload); complete {
			m.all = append(m.all, string(batch))
		}
	}
	return nil
}

func (m *machine) Enter(uint64) {}

func (m *machine) Snapshot() (uint64, func(io.Writer) error, error) {
	all := m.shown()
	return m.b.Whole(), func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(all, "\n"))
		return err
	}, nil
}

func (m *machine) Whole() uint64 { return m.b.Whole() }

func (m *machine) shown() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

// start starts the gateway of a name.
func (w *world) start(name string) *gateway {
	w.t.Helper()
	return w.startAt(name, name)
}

// startAt starts a gateway with a member's name at an address with its own disk.
func (w *world) startAt(name, member string) *gateway {
	w.t.Helper()
	g := &gateway{m: &machine{}, done: make(chan error, 1)}
	d, err := driver.Open(driver.Options{
		Dir: filepath.Join(w.dir, name), Keyspace: "default", ID: 7, Member: member, Address: name, Record: w.near,
		Log: w.log, Peers: w.near, Machine: g.m, CheckpointBytes: w.checkpoint, ReplaceAfter: time.Second, PollEvery: w.poll,
		RecoverAfter: w.recover, KeepEntries: 4,
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("gateway", name),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	g.Driver = d
	ctx, cancel := context.WithCancel(w.ctx)
	g.stop = cancel
	go func() {
		defer close(g.done)
		g.done <- d.Run(ctx)
	}()
	w.gateways[name] = g
	w.near.Join(name, d)
	w.t.Cleanup(func() {
		cancel()
		for err := range g.done {
			if err != nil {
				w.t.Errorf("%s: %v", name, err)
			}
		}
	})
	return g
}

// kill ends a gateway. Its disk has what it had.
func (w *world) kill(name string) {
	w.t.Helper()
	g := w.gateways[name]
	delete(w.gateways, name)
	w.near.Leave(name)
	g.stop()
	if err := <-g.done; err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
}

// follows waits until a gateway follows an era after another with a set of so many disks.
func (w *world) follows(g *gateway, era uint64, disks int) uint64 {
	w.t.Helper()
	s, err := g.Wait(w.ctx, func(s driver.Status) bool {
		return s.Entered && !s.Broken && s.Record.Active.Number > era && len(s.Record.Active.Set) == disks && s.Record.Recovering == 0
	})
	if err != nil {
		w.t.Fatalf("no gateway follows an era after %d with %d disks: %v: %+v", era, disks, err, s)
	}
	return s.Record.Active.Number
}

// write writes some batches, and keeps those that are acknowledged.
func (w *world) write(g *gateway, n int) {
	w.t.Helper()
	w.terms++
	lead, err := g.Lead(w.ctx, w.terms)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range n {
		batch := fmt.Sprintf("%d/%d/%s", w.terms, i, strings.Repeat("x", rand.IntN(3000)))
		index, err := lead.Append(w.ctx, []byte(batch), func(uint64) {})
		if err == nil {
			err = g.Counted(w.ctx, lead.Era, index)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.acked = append(w.acked, batch)
	}
}

// has reads at a gateway.
func (w *world) has(g *gateway) {
	w.t.Helper()
	if err := g.Read(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	if got := g.m.shown(); !slices.Equal(got, w.acked) {
		w.t.Fatalf("a read finds %d batches, and %d were acknowledged", len(got), len(w.acked))
	}
}

// empty empties the disk of a gateway.
func (w *world) empty(name string) {
	if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}
