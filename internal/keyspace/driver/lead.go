package driver

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Writer appends batches to the log of an era with a term. Its methods must not be called at once.
type Writer struct {
	d         *Driver
	Era, Term uint64
	next      uint64
}

// Lead makes the log of the present era this gateway's, with a term that no other writer of the era has. The error is
// [ErrDeposed] if a later writer has it.
func (d *Driver) Lead(ctx context.Context, term uint64) (*Writer, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := d.Wait(ctx, func(s Status) bool { return s.Entered && !s.Broken })
		if err != nil {
			return nil, err
		}
		era := s.Record.Active.Number
		step := core.ReadOn
		if s.At.Term == term {
			step = core.Written
		} else if core.Fits(s.At.Next, 1, s.Counted, d.o.Log.Ring()) {
			if step, err = d.o.Log.Fence(ctx, era, term, s.At); err != nil {
				d.o.Logger.Debug("the log cannot be taken over yet", "error", err)
				retry.Sleep(ctx, retryAfter/4)
				continue
			}
		}
		switch step {
		case core.Written:
			return &Writer{d, era, term, s.At.Next}, nil
		case core.Deposed:
			return nil, fmt.Errorf("%w: the log has term %d, and this is %d", ErrDeposed, s.At.Term, term)
		default: // the cell has an entry now
			d.post(d.core.Look)
			_, _ = d.Wait(ctx, func(now Status) bool { // ctx is looked at next
				return now.At != s.At || now.Counted > s.Counted || now.Broken || now.Record.Active.Number != era
			})
		}
	}
}

// Next is the index of the next entry.
func (w *Writer) Next() uint64 { return w.next }

// Append writes a batch, once it fits. Before that it calls begins with the index of the batch's last entry. When Append
// returns, the chain has committed the batch; it is applied when it counts. After an error it may be in the log if begins
// was called; unless the error is [ErrTooLarge] the writer cannot be used any more.
func (w *Writer) Append(ctx context.Context, batch []byte, begins func(index uint64)) (index uint64, err error) {
	d := w.d
	most := d.o.Log.MaxPayload()
	if most < 2 {
		return 0, fmt.Errorf("%w: the chain's values have no place for an entry", ErrTooLarge)
	}
	payloads := Split(batch, most)
	n, ring := uint64(len(payloads)), d.o.Log.Ring()
	if n > ring/2 {
		return 0, fmt.Errorf("%w: a batch of %d bytes", ErrTooLarge, len(batch))
	}
	if _, err := d.Wait(ctx, func(s Status) bool {
		return s.Record.Active.Number != w.Era || s.Broken || core.Fits(w.next, n, s.Counted, ring)
	}); err != nil {
		return 0, err
	}
	if s := d.Status(); s.Record.Active.Number != w.Era || s.Broken {
		return 0, fmt.Errorf("%w: era %d has ended", ErrDeposed, w.Era)
	}
	begins(w.next + n - 1)
	if err := d.o.Log.Write(ctx, w.Era, w.Term, w.next, payloads); err != nil {
		return 0, err
	}
	p := Pushed{Era: w.Era, Term: w.Term, First: w.next, Payloads: payloads}
	w.next += n
	d.post(func() {
		p.Counted = d.core.Tell(p.Era)
		d.reminder.Stop()
		for _, g := range d.others() {
			d.o.Peers.Push(g, d.disk, p)
		}
		d.take(&p, d.core.Written)
	})
	return p.Last(), nil
}

// Counted waits until an entry of an era counts. After an error it is not known whether it will.
func (d *Driver) Counted(ctx context.Context, era, index uint64) error {
	s, err := d.Wait(ctx, func(s Status) bool { return s.Record.Active.Number != era || s.Counted >= index })
	if err == nil && s.Record.Active.Number != era {
		err = fmt.Errorf("%w: era %d has ended", ErrDeposed, era)
	}
	return err
}
