package driver

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

var _ Handler = (*Driver)(nil)

// Reported implements [Handler].
func (d *Driver) Reported(from core.Disk, r core.Report) {
	d.post(func() {
		if slices.ContainsFunc(d.state.Gateways, func(g Gateway) bool { return g.Disk == from }) {
			d.heard[from] = time.Now()
		}
		d.core.Reported(from, r)
	})
}

// Pushed implements [Handler].
func (d *Driver) Pushed(from core.Disk, p Pushed) {
	d.post(func() {
		d.take(&p, func(era, term, first, last uint64) { d.core.Pushed(from, era, term, first, last) })
		d.core.Reported(from, p.report())
	})
}

// in has the loop do something, and waits for it.
func (d *Driver) in(ctx context.Context, do func()) error {
	done := make(chan struct{})
	select {
	case d.events <- func() { defer close(done); do() }:
	case <-d.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
		return nil
	case <-d.ended:
	}
	select {
	case <-done:
		return nil
	default: // the loop ended before
		return ErrEnded
	}
}

// request makes a request of a recoverer, and waits for the answer.
func (d *Driver) request(ctx context.Context, do func(call uint64)) (core.Disk, core.Answer, error) {
	call, answer := rand.Uint64(), make(chan core.Answer, 1)
	if err := d.in(ctx, func() {
		d.due = time.Time{} // a recovery is under way
		d.calls[call] = answer
		do(call)
	}); err != nil {
		return d.disk, core.Answer{}, err
	}
	select {
	case a := <-answer:
		return d.disk, a, nil
	case <-d.ended:
		return d.disk, core.Answer{}, ErrEnded
	case <-ctx.Done():
		d.post(func() { delete(d.calls, call) })
		return d.disk, core.Answer{}, context.Cause(ctx)
	}
}

// Ask implements [Handler].
func (d *Driver) Ask(ctx context.Context, era uint64) (core.Disk, core.Answer, error) {
	return d.request(ctx, func(call uint64) { d.core.Ask(call, era) })
}

// Install implements [Handler].
func (d *Driver) Install(ctx context.Context, base core.Position, content io.Reader) (core.Disk, core.Answer, error) {
	a, err := d.journal.Receive(&touching{content, d})
	if err == nil && a.Index() != base.Index {
		_ = a.Remove() // it is refused for another reason
		err = fmt.Errorf("%w: it ends with entry %d, not %d", journal.ErrContent, a.Index(), base.Index)
	}
	if err != nil {
		return d.disk, core.Answer{}, err
	}
	return d.request(ctx, func(call uint64) { d.offer(a, func() { d.core.Install(call, base) }) })
}

// Take implements [Handler].
func (d *Driver) Take(ctx context.Context) (c Content, err error) {
	return d.content(ctx, func() (core.Position, error) { return d.journal.Stored().Last, nil })
}

// Fetch implements [Handler].
func (d *Driver) Fetch(ctx context.Context, era, index uint64) (c Content, err error) {
	return d.content(ctx, func() (core.Position, error) {
		s, last := d.core.Status(), d.journal.Stored().Last
		to := min(s.Applied, last.Index)
		p := core.Position{Era: era, Index: to}
		if !s.Entered || s.Record.Active.Number != era || last.Era != era || to < max(index, s.Record.Active.Base.Index) {
			return p, ErrRefused
		}
		switch before, _, _ := d.journal.State(); {
		case to == last.Index:
			p.Term = last.Term
		case to == s.Record.Active.Base.Index: // the era begins with it
		case to <= before:
			return p, ErrRefused // the entry's term is not known any more
		default:
			p.Term = d.journal.Term(to)
		}
		return p, nil
	})
}

// content returns the content of the own disk up to a position.
func (d *Driver) content(ctx context.Context, at func() (core.Position, error)) (c Content, err error) {
	if failed := d.in(ctx, func() {
		d.due = time.Time{}
		if c.Last, err = at(); err != nil {
			return
		}
		var data io.ReadCloser
		if data, err = d.journal.Content(c.Last.Index); err == nil {
			c.Data = &watched{data, d}
		}
	}); failed != nil {
		return c, failed
	}
	return c, err
}

// watched is a content whose reader tells if the disk has changed it.
type watched struct {
	io.ReadCloser
	d *Driver
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && journal.Damaged(err) {
		w.d.fail(err) // the next start sets the directory aside
	}
	return n, err
}

// touching is a content that comes from a recoverer.
type touching struct {
	io.Reader
	d *Driver
}

func (t *touching) Read(p []byte) (int, error) {
	t.d.touched.Store(int64(time.Since(t.d.born)))
	return t.Reader.Read(p)
}
