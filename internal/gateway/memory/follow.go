package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// follow applies the entries of the log, until this gateway has the lock. Without a lock and
// without an error ctx has ended.
func (g *Gateway) follow(ctx context.Context, elected <-chan *client.Lock) (*client.Lock, error) {
	var wait time.Duration
	for {
		select {
		case lock := <-elected:
			return lock, nil
		case <-ctx.Done():
			return nil, nil
		default:
		}
		more, err := g.catchUp(ctx)
		switch {
		case fatal(err):
			return nil, err
		case err != nil && ctx.Err() == nil:
			g.o.Log.Debug("the log cannot be read", "error", err)
			wait = retryEvery
		case more:
			wait = 0
		default:
			wait = pollEvery
		}
		pause(ctx, nil, wait)
	}
}

// catchUp applies the log's next entries. more: it ended before the log's end.
func (g *Gateway) catchUp(ctx context.Context) (more bool, err error) {
	if g.log == nil {
		if err := g.open(ctx); err != nil {
			if errors.Is(err, chainlog.ErrNone) {
				err = nil
			}
			return false, err
		}
	}
	batches, more, err := g.log.Read(ctx)
	if err == nil {
		g.heard()
	}
	g.sawTerm(g.log.LastTerm())
	for _, b := range batches {
		if err := g.applyBatch(g.log.Next()-1, b); err != nil {
			return false, err
		}
	}
	if errors.Is(err, chainlog.ErrBehind) {
		return true, g.reload(ctx)
	}
	if err == nil && !more {
		g.ends.Add(1)
		g.found()
	}
	return more, err
}

// open opens the keyspace's log.
func (g *Gateway) open(ctx context.Context) error {
	l, err := chainlog.Open(ctx, g.o.Chain, g.o.Name)
	if err != nil {
		return err
	}
	space, err := keyspace.New(l.Revision(), g.o.Tokens)
	if err != nil {
		return err
	}
	g.log = l
	g.mu.Lock()
	g.secret = l.Secret()
	g.mu.Unlock()
	return g.replace(space)
}

// found notes that the log was read to its end: from now on this gateway answers from its copy.
func (g *Gateway) found() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cluster != g.number() {
		g.cluster = g.number()
		g.notify()
	}
}

// number is that of the keyspace.
func (g *Gateway) number() uint64 {
	if g.disk != nil {
		return g.o.ID
	}
	return g.log.ID()
}

// applyBatch executes the commands of a batch, which ends with an entry of the log.
func (g *Gateway) applyBatch(entry uint64, batch []byte) error {
	g.heard()
	for len(batch) > 0 {
		n, m := binary.Uvarint(batch)
		if m <= 0 || n > uint64(len(batch)-m) {
			return fmt.Errorf("%w: entry %d of the log", errDamaged, entry)
		}
		command, err := keyspace.Decode(bytes.Clone(batch[m : m+int(n)])) // watchers may keep it for long
		if err != nil {
			return fmt.Errorf("%w: entry %d of the log: %w", errDamaged, entry, err)
		}
		if _, err := g.execute(&command); fatal(err) { // another error is the answer of the active gateway
			return err
		}
		batch = batch[m+int(n):]
	}
	g.applied.Raise(g.space.Revision())
	return nil
}

// reload replaces the keyspace by the newest snapshot. Watchers begin anew. The old copy goes before the new one comes, so
// that there is memory for one; until then nothing is answered from it.
func (g *Gateway) reload(ctx context.Context) error {
	var space *keyspace.Keyspace
	loaded, err := g.log.Load(ctx, func(encoded io.Reader) (err error) {
		if space != nil { // of a snapshot that was replaced meanwhile
			err = space.Close()
		}
		if err = errors.Join(err, g.drop()); err == nil {
			space, err = keyspace.Restore(encoded, g.o.Tokens)
		}
		return err
	})
	if errors.Is(err, keyspace.ErrSnapshot) {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil && space != nil {
		err = errors.Join(err, space.Close())
	}
	if err != nil || !loaded {
		return err
	}
	g.o.Log.Info("loaded the keyspace's snapshot", "entry", g.log.Next()-1, "revision", space.Revision())
	return g.replace(space)
}

// drop gives up this gateway's copy. Calls wait for the next one.
func (g *Gateway) drop() error {
	space, err := keyspace.New(1, g.o.Tokens)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.cluster = 0
	g.mu.Unlock()
	return g.replace(space)
}

// replace has calls use another keyspace. Those that use the old one end.
func (g *Gateway) replace(space *keyspace.Keyspace) error {
	g.mu.Lock()
	old := g.space
	g.space = space
	g.mu.Unlock()
	return old.Close()
}
