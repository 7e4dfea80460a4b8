package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// call is the state machine of one operation: it chooses the next message and (in judge.go) interprets answers. It
// does no I/O, takes no lock and does not wait; its runner does. TestSlotSize bounds its size, because the calls under
// way should stay in the CPU's cache.
type call struct {
	task
	recent history // the attempts whose answers are taken
}

// task is the part of a call that is reset for every operation.
type task struct {
	start   *start
	op      *Op      // what to do; its key is not used
	name    string   // the user's key
	key     wire.Key // the same as it travels
	outcome *Outcome // is filled in at the end

	route   *route        // to the shard's chain, of the latest attempt
	keys    *wire.Keyring // for the next attempt
	session *session      // writes: from the first attempt to the end; its seq is that of this write
	cause   error         // the last obstacle
	alive   int32         // attempts of a write that may still take effect
	shard   uint16
	bound   uint16
	kind    wire.Op
	flags   wire.Flag
	alone   bool  // it must be no part of a bundle, because the cluster has tags or is about to (T6)
	tried   uint8 // members asked since all had been: one bit for each place in the chain
	asked   uint8 // members ever asked
	pauses  uint8 // so far, for BUSY and the like; no more are counted than fit
}

// attempt is one message sent.
type attempt struct {
	id     uint64
	route  *route
	to     *member
	sent   time.Duration // since the call began
	bundle *batching     // the way, if it shared its datagram with others
}

// history holds the latest attempts. An answer to an older one is ignored, which is always safe: it is as if lost.
type history struct {
	newest  attempt
	earlier *[7]attempt // made for the first repetition, and kept for later operations
	n       int32       // attempts
	misses  int32       // attempts without an answer
}

func (h *history) latest() *attempt { return &h.newest }

func (h *history) add(a attempt) {
	if h.n > 0 {
		if h.earlier == nil {
			h.earlier = new([7]attempt)
		}
		h.earlier[int(h.n)%len(h.earlier)] = h.newest
	}
	h.newest = a
	h.n++
}

func (h *history) find(id uint64) *attempt {
	if h.n > 0 && h.newest.id == id {
		return &h.newest
	}
	for n := h.n - 1; n > max(h.n-1-int32(len(h.earlier)), 0); n-- {
		if a := &h.earlier[int(n)%len(h.earlier)]; a.id == id {
			return a
		}
	}
	return nil
}

// clear makes the call ready for another operation, and keeps nothing of the caller's alive.
func (k *call) clear() {
	k.task = task{}
	k.recent.n, k.recent.misses = 0, 0 // which is all that tells of the attempts
}

// start is the common state of calls that begin together. It does not change.
type start struct {
	client     *Client
	ctx        context.Context
	err        error // of the context
	now        time.Time
	until      time.Time // as the context wants it
	writeUntil time.Time
	booted     time.Duration // if there is a write: the boot time
	to         sink          // is told of ends, if a pipeline runs the calls
}

// start looks at the clocks and the context, once for operations that begin together. The boot time matters if there
// is a write.
func (c *Client) start(ctx context.Context, write bool) start {
	s := start{client: c, ctx: ctx, now: time.Now()}
	s.until = s.now.Add(c.options.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		s.until = deadline
	}
	s.writeUntil = earlier(s.until, s.now.Add(wire.MaxRetryS*time.Second)) // W10
	if err := ctx.Err(); err != nil {
		s.err = contextError(err)
	}
	if write {
		s.booted = c.bootTime()
	}
	return s
}

// begin readies the call of an operation on a key. It returns whether the arguments allow it; otherwise the call has
// ended.
func (k *call) begin(at *start, op *Op, key *Key, outcome *Outcome) bool {
	k.clear()
	k.task = task{start: at, op: op, kind: op.kind, name: key.name, key: key.hash, outcome: outcome}
	outcome.Err = k.check()
	return outcome.Err == nil
}

// check looks for reasons to send nothing.
func (k *call) check() error {
	c := k.client()
	if len(k.op.value) > wire.MaxValueBytes {
		return k.failed(fmt.Errorf("%w: %d bytes, and the maximum is %d", ErrTooLarge, len(k.op.value), wire.MaxValueBytes))
	}
	for i := range k.op.read {
		if err := k.option(&k.op.read[i]); err != nil {
			return k.failed(err)
		}
	}
	if k.start.err != nil {
		return k.failed(k.start.err)
	}
	if !c.keys().May(k.kind) {
		return k.failed(ErrDenied)
	}
	k.shard = c.view.Load().shard(k.key)
	if !k.start.now.Before(k.until()) { // the context may learn of its deadline later
		return k.failed(ErrTimeout)
	}
	return nil
}

func (k *call) client() *Client { return k.start.client }

// until is when the call's time is up.
func (k *call) until() time.Time {
	if k.kind.IsWrite() {
		return k.start.writeUntil
	}
	return k.start.until
}

// from says which node a read asks first.
func (k *call) from() *ReadFrom {
	from := &k.client().options.ReadFrom
	for i := range k.op.read {
		if o := &k.op.read[i]; o.set == setFrom {
			from = &o.from
		}
	}
	return from
}

func (k *call) option(o *ReadOption) error {
	switch o.set {
	case setAny:
		k.flags, k.bound = wire.FlagAny, 0
	case setBounded:
		if o.tooLarge {
			return fmt.Errorf("%w: the bound of a read is 0 to 65.535 s", ErrBadRequest)
		}
		k.flags, k.bound = wire.FlagBounded, o.bound
	}
	return nil
}

// next encodes the next attempt, which goes alone, behind b. It returns false if there must be none; the call has
// ended then.
func (k *call) next(now time.Time, id uint64, b []byte) ([]byte, *member, bool) {
	place, ok := k.aim()
	if !ok {
		return b, nil, false
	}
	return k.encode(now, id, place, b), k.route.members[place], true
}

// aim chooses the place in the chain that the next attempt asks. It returns false if there must be none; the call has
// ended then.
func (k *call) aim() (place int, ok bool) {
	if k.kind.IsWrite() && k.recent.n > 0 && k.overslept() {
		k.expire(ErrTimeout)
		return 0, false
	}
	k.follow()
	if want := k.op.epoch; want != 0 && k.route.epoch != want {
		k.abandon(ErrOtherEpoch)
		return 0, false
	}
	place, err := k.choosePlace()
	phase, ring := k.client().tags()
	k.alone = phase != wire.TagsOff
	if k.keys = phase.Asking(ring); err == nil && !k.keys.May(k.kind) { // it might when the call began
		err = ErrDenied
	}
	if err != nil {
		k.abandon(err)
		return 0, false
	}
	return place, true
}

// encode writes an attempt that goes alone to the place aimed at behind b.
func (k *call) encode(now time.Time, id uint64, place int, b []byte) []byte {
	var m wire.Message
	k.fire(now, id, place, nil, &m)
	b, _ = k.keys.Append(m.Append(b), wire.Ends{To: k.route.members[place].addr}) // aim asked the keys
	return b
}

// fire notes an attempt, which may be in a bundle, and fills in its message.
func (k *call) fire(now time.Time, id uint64, place int, bundle *batching, m *wire.Message) {
	*m = wire.Message{
		Op: k.kind, Flags: k.flags, Shard: k.shard, Epoch: k.route.epoch, Detail: k.bound, Request: id, Key: k.key,
	}
	if k.kind.IsWrite() {
		if k.session == nil {
			k.session = k.client().sessions.take(k.shard, time.Duration(k.start.now.UnixNano())-k.start.booted)
		}
		m.Session, m.Seq, m.Operand, m.Value = k.session.id, k.session.seq, k.op.operand, k.op.value
		k.alive++
	}
	k.tried |= 1 << place
	k.asked |= 1 << place
	k.recent.add(attempt{id, k.route, k.route.members[place], k.since(now), bundle})
}

// since returns the time from the call's beginning to a moment.
func (k *call) since(now time.Time) time.Duration { return now.Sub(k.start.now) }

// follow takes up the client's present map.
func (k *call) follow() {
	v := k.client().view.Load()
	if k.route != nil && v == k.route.view {
		return
	}
	r := v.route(k.shard)
	if k.route == nil || !r.equal(k.route) {
		k.tried, k.asked = 0, 0
	}
	k.route = r
}

// overtaken reports whether a newer map has another chain for the key, so that there is no use in waiting on. Within an
// epoch the members stay.
func (k *call) overtaken() bool {
	v := k.client().view.Load()
	return v != k.route.view && v.route(k.shard).epoch != k.route.epoch
}

func (k *call) choosePlace() (int, error) {
	switch {
	case k.route.lost:
		return 0, fmt.Errorf("%w: every copy of shard %d was lost with its nodes", ErrNoChain, k.shard)
	case len(k.route.members) == 0:
		return 0, fmt.Errorf("%w: shard %d has none", ErrNoChain, k.shard)
	}
	return k.choose()
}

// patience is how long the latest attempt waits for its answer: as long as the node's answers are known to take, and
// twice as long after every round without one, so that a slow node is not flooded. A write's first attempt without one
// does not count: a lost packet is more likely than a slow chain.
func (k *call) patience() time.Duration {
	limit := k.client().options.Attempt
	to, rounds := k.recent.latest().to, int(k.recent.misses)
	var wait time.Duration
	if k.kind.IsWrite() {
		wait = to.writes.timeout(k.client().options.least, limit)
		rounds--
	} else {
		wait = to.reads.timeout(k.client().options.least, limit)
		rounds /= max(bits.OnesCount8(k.route.serving), 1)
	}
	for ; rounds > 0 && wait < limit; rounds-- {
		wait = min(2*wait, limit)
	}
	return wait
}

// failed describes an error as one of this operation.
func (k *call) failed(err error) error {
	return &OpError{Op: k.kind, Key: k.name, Attempts: int(k.recent.n), Elapsed: time.Since(k.start.now), Err: err}
}

// end ends the call with an error after which it is certain that a write has no effect, and never will.
func (k *call) end(err error) verdict {
	k.releaseSession()
	k.outcome.Err = k.failed(err)
	return done
}

// releaseSession gives the session back: the outcome is certain.
func (k *call) releaseSession() {
	if k.session != nil {
		k.client().sessions.release(k.session)
		k.session = nil
	}
}

// abandon ends the call with an error that leaves it open whether a write happens. Its session is lost (W10): the next
// write in it would have to be told from late copies of this one by nodes that may never have seen this one.
func (k *call) abandon(err error) verdict {
	if k.alive == 0 {
		return k.end(err)
	}
	k.session = nil
	k.outcome.Err = k.failed(&OutcomeUnknownError{Cause: err})
	return done
}

// expire ends the call because time is up, or for the given reason.
func (k *call) expire(reason error) {
	if reason == nil {
		reason = ErrTimeout
	}
	reason = contextError(reason)
	if k.recent.n > 0 && errors.Is(reason, ErrTimeout) {
		reason = fmt.Errorf("%w from %s", reason, k.askedNames())
	}
	if k.cause != nil {
		reason = fmt.Errorf("%w; before: %w", reason, k.cause)
	}
	k.abandon(reason)
}

// askedNames lists the nodes asked.
func (k *call) askedNames() string {
	var names []string
	for i, m := range k.route.members {
		if k.asked&(1<<i) != 0 {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ", ")
}

// missed notes that the latest attempt stayed without an answer.
func (k *call) missed(now time.Time) {
	k.recent.misses++
	if a := k.recent.latest(); a.bundle != nil {
		a.bundle.missed(k.start.now.Add(a.sent), now)
	}
	if !k.kind.IsWrite() { // a write's way is the whole chain
		k.recent.latest().to.near.missed(k.client().options.Attempt)
	}
	if k.recent.misses > 1 {
		k.client().stale(k.route.view)
	}
}

// unsent notes that the latest attempt never left.
func (k *call) unsent(err error) {
	k.recent.misses++
	k.cause = err
	if k.kind.IsWrite() {
		k.alive--
	}
}

// Pauses before the next attempt after BUSY: the first is about the time of a write through a chain, the longest adds
// little to the time for which a repair stops writes.
const (
	firstPause = 100 * time.Microsecond
	maxPause   = 4 * time.Millisecond
	// After so many, which take about as long as a repair, other clients keep the key busy: pauses grow on, up to eight
	// times as long.
	manyPauses = 32
)

// pause is how long to wait before the next attempt: longer each time, and random, so that clients that
// collided on a key do not collide again.
func (k *call) pause() time.Duration {
	limit := min(firstPause<<min(k.pauses, 20), maxPause)
	limit <<= min(max(int(k.pauses)-manyPauses, 0)/8, 3)
	k.pauses += min(1, math.MaxUint8-k.pauses)
	return limit/2 + rand.N(limit)
}

// contextError gives the deadline of a context the same name as the client's own.
func contextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return err
}
