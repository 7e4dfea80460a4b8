// Package local has the record and the peers of a keyspace on disks whose gateways run in one process: to try things out,
// and for tests.
package local

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// Near is a record in a file, and calls the gateways of this process.
type Near struct {
	path   string // empty: it is in memory only
	secret []byte // of the gateways of this process

	mu       sync.Mutex
	record   record
	changed  chan struct{}
	gateways map[string]driver.Handler // by address
}

// record is the file.
type record struct {
	ID      uint64       `json:"id"` // of the keyspace
	Version uint64       `json:"version"`
	State   driver.State `json:"state"`
}

var (
	_ driver.Record = (*Near)(nil)
	_ driver.Peers  = (*Near)(nil)
)

// Open reads a record, or begins an empty one. Without a path it is in memory only.
func Open(path string) (*Near, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	n := &Near{
		path: path, secret: make([]byte, 32), changed: make(chan struct{}), gateways: make(map[string]driver.Handler),
	}
	_, _ = rand.Read(n.secret)
	n.record.ID = binary.BigEndian.Uint64(id[:]) | 1
	if path == "" {
		return n, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return n, n.save(n.record)
	}
	if err == nil {
		err = json.Unmarshal(b, &n.record)
	}
	if err != nil {
		return nil, fmt.Errorf("the keyspace's record %s cannot be read: %w", path, err)
	}
	return n, nil
}

// ID is the number of the keyspace.
func (n *Near) ID() uint64 { return n.record.ID }

// Secret is that by which the gateways know each other.
func (n *Near) Secret() []byte { return n.secret }

// save replaces the file.
func (n *Near) save(r record) error {
	if n.path == "" {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.Create(n.path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), n.path)
}

// Join has calls to an address answered.
func (n *Near) Join(address string, h driver.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gateways[address] = h
}

// Leave has no calls to an address answered.
func (n *Near) Leave(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.gateways, address)
}

// Read implements [driver.Record].
func (n *Near) Read(context.Context) (driver.State, uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.record.State, n.record.Version, nil
}

// Swap implements [driver.Record].
func (n *Near) Swap(_ context.Context, version uint64, s driver.State) (uint64, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if version != n.record.Version {
		return n.record.Version, false, nil
	}
	next := record{ID: n.record.ID, Version: version + 1, State: s}
	if err := n.save(next); err != nil {
		return version, false, err
	}
	n.record = next
	close(n.changed)
	n.changed = make(chan struct{})
	return next.Version, true, nil
}

// Watch implements [driver.Record].
func (n *Near) Watch(ctx context.Context, changed func(driver.State, uint64)) error {
	for {
		n.mu.Lock()
		r, next := n.record, n.changed
		n.mu.Unlock()
		changed(r.State, r.Version)
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *Near) at(g driver.Gateway) (driver.Handler, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if x := n.gateways[g.Address]; x != nil {
		return x, nil
	}
	return nil, errors.New("no gateway is there")
}

// Report implements [driver.Peers].
func (n *Near) Report(to driver.Gateway, from core.Disk, r core.Report) {
	if g, err := n.at(to); err == nil {
		go g.Reported(from, r)
	}
}

// Push implements [driver.Peers].
func (n *Near) Push(to driver.Gateway, from core.Disk, p driver.Pushed) {
	if g, err := n.at(to); err == nil {
		go g.Pushed(from, p)
	}
}

// Ask implements [driver.Peers].
func (n *Near) Ask(ctx context.Context, to driver.Gateway, era uint64) (core.Disk, core.Answer, error) {
	g, err := n.at(to)
	if err != nil {
		return core.Disk{}, core.Answer{}, err
	}
	return g.Ask(ctx, era)
}

// Install implements [driver.Peers].
func (n *Near) Install(ctx context.Context, to driver.Gateway, base core.Position, c io.Reader) (core.Disk, core.Answer, error) {
	g, err := n.at(to)
	if err != nil {
		return core.Disk{}, core.Answer{}, err
	}
	return g.Install(ctx, base, c)
}

// Take implements [driver.Peers].
func (n *Near) Take(ctx context.Context, to driver.Gateway) (driver.Content, error) {
	g, err := n.at(to)
	if err != nil {
		return driver.Content{}, err
	}
	return g.Take(ctx)
}

// Fetch implements [driver.Peers].
func (n *Near) Fetch(ctx context.Context, to driver.Gateway, era, index uint64) (driver.Content, error) {
	g, err := n.at(to)
	if err != nil {
		return driver.Content{}, err
	}
	return g.Fetch(ctx, era, index)
}
