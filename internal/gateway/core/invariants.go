package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// CheckInvariants returns an error if the gateway is in a state that no events lead to. Simulations call it after every
// event.
func (g *Gateway) CheckInvariants() error {
	l := g.life
	if l == nil {
		return nil
	}
	switch {
	case l.acked > l.follows || l.follows > l.seen:
		return fmt.Errorf("acknowledged up to %d, followed up to %d, seen up to %d", l.acked, l.follows, l.seen)
	case l.foreign > l.seen:
		return fmt.Errorf("a foreign change at %d, and the directory is seen up to %d", l.foreign, l.seen)
	case !slices.IsSortedFunc(l.changes, func(a, b Change) int { return cmp.Compare(a.Rev, b.Rev) }):
		return errors.New("changes of the directory are not in their order")
	case len(l.changes) > 0 && l.changes[len(l.changes)-1].Rev > l.seen:
		return errors.New("a change of the directory was taken before it was seen")
	case l.free && l.closed:
		return errors.New("nothing is placed, and reads end because something is")
	}
	return l.checkWrites()
}

// checkWrites checks that writes under way belong to this session and are found by their keys.
func (l *life) checkWrites() error {
	for key, o := range l.keys {
		for w := range o.under {
			if w.life != l || !slices.Contains(w.keys, key) {
				return fmt.Errorf("write %d is under way for %q, in another session or without the key", w.id, key)
			}
		}
	}
	for w := range l.ranged {
		if w.life != l || len(w.txn.Spans) == 0 {
			return fmt.Errorf("write %d counts as one of a range, in another session or without one", w.id)
		}
		for _, key := range w.keys {
			if o := l.keys[key]; o == nil || !o.under[w] {
				return fmt.Errorf("write %d of a range is under way, and not for %q", w.id, key)
			}
		}
	}
	return nil
}
