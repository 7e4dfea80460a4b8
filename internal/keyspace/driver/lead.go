package driver

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/internal/keyspace/core"
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
				sleep(ctx, retryAfter/4)
				continue
			}
		}
		switch step {
		case core.Written:
			return &Writer{d, era, term, s.At.Next}, nil
		case core.Deposed:
			return nil, fmt.Errorf("%w: the log has term %d, and this is %d", ErrDeposed, s.At.Term, term)
		default:
			_, _ = d.Wait(ctx, func(now Status) bool { // ctx is looked at above
				return now.At != s.At || now.Counted > s.Counted || now.Broken || now.Record.Active.Number != era
			})
		}
	}
}

// Append writes a batch. When it returns, the chain has committed it up to an index; it counts when [Driver.Counted]
// says so. After an error it may be in the log, and the writer cannot be used any more.
func (w *Writer) Append(ctx context.Context, batch []byte) (index uint64, err error) {
	d := w.d
	payloads := Split(batch, d.o.Log.MaxPayload())
	n, ring := uint64(len(payloads)), d.o.Log.Ring()
	if n > ring/2 {
		return 0, fmt.Errorf("%w: a batch of %d bytes", ErrTooLarge, len(batch))
	}
	if _, err := d.Wait(ctx, func(s Status) bool {
		return s.Record.Active.Number != w.Era || s.Broken || core.Fits(w.next, n, s.Counted, ring)
	}); err != nil {
		return 0, err
	}
	if s, _ := d.Status(); s.Record.Active.Number != w.Era || s.Broken {
		return 0, fmt.Errorf("%w: era %d has ended", ErrDeposed, w.Era)
	}
	if err := d.o.Log.Write(ctx, w.Era, w.Term, w.next, payloads); err != nil {
		return 0, err
	}
	w.next += n
	d.post(d.core.Poll)
	return w.next - 1, nil
}

// Counted waits until an entry of an era counts. After an error it is not known whether it will.
func (d *Driver) Counted(ctx context.Context, era, index uint64) error {
	s, err := d.Wait(ctx, func(s Status) bool { return s.Record.Active.Number != era || s.Counted >= index })
	if err == nil && s.Record.Active.Number != era {
		err = fmt.Errorf("%w: era %d has ended", ErrDeposed, era)
	}
	return err
}
