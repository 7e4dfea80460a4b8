// Package softkeyspace has the record and the peers of a keyspace on disks for tests whose gateways run in one process.
package softkeyspace

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// Near is a record, and calls the gateways of this process.
type Near struct {
	mu       sync.Mutex
	state    driver.State
	version  uint64
	changed  chan struct{}
	gateways map[string]driver.Handler // by address
}

var (
	_ driver.Record = (*Near)(nil)
	_ driver.Peers  = (*Near)(nil)
)

// New makes an empty record.
func New() *Near {
	return &Near{changed: make(chan struct{}), gateways: make(map[string]driver.Handler)}
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
	return n.state, n.version, nil
}

// Swap implements [driver.Record].
func (n *Near) Swap(_ context.Context, version uint64, s driver.State) (uint64, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if version != n.version {
		return n.version, false, nil
	}
	n.state, n.version = s, version+1
	close(n.changed)
	n.changed = make(chan struct{})
	return n.version, true, nil
}

// Watch implements [driver.Record].
func (n *Near) Watch(ctx context.Context, changed func(driver.State, uint64)) error {
	for {
		n.mu.Lock()
		s, version, next := n.state, n.version, n.changed
		n.mu.Unlock()
		changed(s, version)
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
