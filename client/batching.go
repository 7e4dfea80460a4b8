package client

import (
	"time"

	"github.com/netcraq/netcraq/wire"
)

const (
	// lostInARow is how many bundles in a row may stay without any answer before their way is taken for one that does not
	// carry them: an older node on it, or a network that drops packets of that length.
	lostInARow = 3
	// minBundleRest is how long such a way gets none, then a single one to try it again; twice as long after each that
	// stays without an answer.
	minBundleRest, maxBundleRest = time.Second, time.Minute
)

// batching is what is known about bundles on one way: of reads to a node, of writes to a chain. One bundle is tried before
// others follow. The pipeline's lock guards it.
type batching struct {
	proven  bool          // an answer came in a bundle
	lost    int           // times that bundles stayed without an answer since
	noticed time.Time     // the latest of these
	until   time.Time     // no bundles before, unless proven
	rest    time.Duration // the next
}

func (w *batching) allowed(now time.Time) bool { return w.proven || !now.Before(w.until) }

// opened notes that a bundle will be sent. Until it is answered no other is, unless bundles have proven to pass.
func (w *batching) opened(now time.Time) {
	if w.proven {
		return
	}
	w.rest = min(max(2*w.rest, minBundleRest), maxBundleRest)
	w.until = now.Add(w.rest)
}

// answered notes that an answer came in a bundle.
func (w *batching) answered() { *w = batching{proven: true} }

// missed notes that a message in the bundle that was sent then stayed without an answer. Bundles that were under way together
// count as one: if this machine stood still for a moment, all of them are late.
func (w *batching) missed(sent, now time.Time) {
	if !w.proven || !sent.After(w.noticed) {
		return
	}
	w.noticed = now
	if w.lost++; w.lost == lostInARow {
		*w = batching{until: now.Add(minBundleRest), rest: minBundleRest}
	}
}

// single reports whether the next attempt must not share a datagram (B3): retries, because what cannot be done in a bundle is
// answered BUSY there; whatever is always answered so; and in a cluster with tags everything.
func (k *call) single() bool {
	return k.recent.n > 0 || k.op == wire.OpAdd || k.flags != 0 || k.keys != nil
}
