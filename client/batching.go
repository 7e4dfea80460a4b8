package client

import (
	"time"

	"github.com/netcraq/netcraq/wire"
)

const (
	// lostInARow is the number of bundles in a row without any answer after which their path is assumed not to carry
	// bundles: an older node, or a network that drops packets of that length.
	lostInARow = 3
	// minBundleBackoff is how long no bundle is sent on such a path. Then one is tried again; the time doubles after each
	// without an answer.
	minBundleBackoff, maxBundleBackoff = time.Second, time.Minute
)

// batching is the state of bundles on one path: reads to a node, or writes to a chain; or that of trains to a node. One is
// tried before others follow. The lock of its pipeline guards it.
type batching struct {
	proven  bool          // an answer came in a bundle
	sampled time.Time     // when the attempts left of which the latest sample was taken
	lost    int           // times that bundles stayed without an answer since
	noticed time.Time     // the latest of these
	until   time.Time     // no bundles before, unless proven
	backoff time.Duration // the next pause without bundles
}

func (w *batching) allowed(now time.Time) bool { return w.proven || !now.Before(w.until) }

// opened notes that a bundle will be sent. Until it is answered no other is, unless bundles have proven to pass.
func (w *batching) opened(now time.Time) {
	if w.proven {
		return
	}
	w.backoff = min(max(2*w.backoff, minBundleBackoff), maxBundleBackoff)
	w.until = now.Add(w.backoff)
}

// answered notes that an answer came in a bundle.
func (w *batching) answered() { *w = batching{proven: true, sampled: w.sampled} }

// sample reports whether an answer is the first to attempts that were sent then. All answers to a bundle come together:
// as so many samples they would hide how much the time to an answer varies.
func (w *batching) sample(sent time.Time) bool {
	first := !sent.Equal(w.sampled)
	w.sampled = sent
	return first
}

// missed notes that a message in the bundle that was sent then stayed without an answer. Bundles that were under way
// together count as one: if this machine stood still for a moment, all of them are late.
func (w *batching) missed(sent, now time.Time) {
	if !w.proven || !sent.After(w.noticed) {
		return
	}
	w.noticed = now
	if w.lost++; w.lost == lostInARow {
		*w = batching{sampled: w.sampled, until: now.Add(minBundleBackoff), backoff: minBundleBackoff}
	}
}

// single reports whether the next attempt must be a single message (B3): a retry, because the last answer may have
// been the BUSY of a bundle; an operation that bundles do not carry; and all operations in a cluster that is not without tags.
func (k *call) single() bool {
	return k.recent.n > 0 || k.kind == wire.OpAdd || k.flags != 0 || k.alone
}
