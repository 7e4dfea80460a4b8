package agent

import (
	"context"
	"log/slog"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	// maxDirty is how many dirty objects one look takes in.
	maxDirty = 4096
	// eagerLooks is up to which look each one is followed by a try: while an object is dirty, CAS and ADD are busy.
	eagerLooks = 8
	// maxPause is the longest time between two tries for one object, in looks.
	maxPause = 32
	// quietLooks is how many looks without a change make the next scan needless. One is not enough: a plane may count a
	// message just before it changes the object.
	quietLooks = 2
	// drowsyLooks is how many looks without a change make the looks themselves rarer, by a factor of drowsiness: reading
	// the counters of a plane costs something too.
	drowsyLooks = 20
	drowsiness  = 5
	// calmLooks is how many looks without an object that stays dirty make the looks rarer in the same way: writes are
	// under way, and none is lost. A table of 100,000 objects takes a tenth of a CPU otherwise.
	calmLooks = 20
	// lookPause is the least pause after a look, in durations of the look: looks through a large table leave most of the
	// time to copies.
	lookPause = 2
)

// resyncer finds objects that stay dirty and sends the messages that make them clean (W9).
type resyncer struct {
	plane   dataplane.Plane
	log     *slog.Logger
	session uint64                           // of its own, for writes whose session entry is gone
	sent    [math.MaxUint8 + 1]atomic.Uint64 // messages by op
	seen    map[wire.Key]sighting
	woken   chan struct{} // shards were configured: messages may be lost that were under way
	alarmed atomic.Bool   // woken, and no look since

	changes uint64 // made by packets, at the last look
	quiet   int    // looks since they grew
	calm    int    // looks since an object stayed dirty, or since shards were configured
}

// sighting is an object that has been dirty in its version for some looks.
type sighting struct {
	version uint64
	looks   int
}

// stuck is an object that something is to be done about, with the write that made it so, if its session is still there.
type stuck struct {
	dataplane.KeyedObject
	config  chain.ShardConfig
	shard   uint16
	session uint64
	writer  chain.Session
}

func newResyncer(plane dataplane.Plane, log *slog.Logger) *resyncer {
	return &resyncer{plane: plane, log: log, session: rand.Uint64() | 1, seen: make(map[wire.Key]sighting),
		woken: make(chan struct{}, 1)}
}

// wake lets the next looks be soon.
func (s *resyncer) wake() {
	s.alarmed.Store(true)
	select {
	case s.woken <- struct{}{}:
	default: // it is awake
	}
}

func (a *Agent) resync(ctx context.Context) {
	s := a.resyncer
	report := reporter{log: a.log, what: "cannot resync dirty objects"}
	periodicallyOr(ctx, s.woken, a.options.ResyncEvery, func() time.Duration {
		began := time.Now()
		report.result(s.look())
		return max(s.pause(a.options.ResyncEvery), lookPause*time.Since(began))
	})
}

// pause is the time to the next look, if looks are every so often while objects stay dirty.
func (s *resyncer) pause(every time.Duration) time.Duration {
	if s.quiet > drowsyLooks || s.calm > calmLooks {
		return drowsiness * every
	}
	return every
}

// look sends the due messages for the objects that are dirty now and were so, in the same version, at earlier looks.
func (s *resyncer) look() error {
	if s.calm++; s.alarmed.Swap(false) {
		s.calm = 0
	}
	idle, err := s.idle()
	if err != nil || idle {
		return err
	}
	dirty, err := s.plane.Dirty(maxDirty)
	if err != nil {
		return err
	}
	due, err := s.due(dirty)
	if err != nil || len(due) == 0 {
		return err
	}
	if err := s.findWriters(due); err != nil {
		return err
	}
	for i := range due {
		if err := s.send(&due[i]); err != nil {
			return err
		}
	}
	return nil
}

// idle reports that no object can be dirty: none was at the last look, and no packet has changed one since.
func (s *resyncer) idle() (bool, error) {
	counters, err := s.plane.Counters()
	if err != nil {
		return false, err
	}
	changes := uint64(0)
	for counter, n := range counters {
		if counter.Outcome == wire.OutcomeOrdered || counter.Outcome == wire.OutcomeApplied {
			changes += n
		}
	}
	if changes != s.changes {
		s.changes, s.quiet = changes, 0
		return false, nil
	}
	s.quiet++
	return s.quiet > quietLooks && len(s.seen) == 0, nil
}

// due records the dirty objects and returns those that have been dirty for 2 to 8, 16, 32, 64 and so on checks.
func (s *resyncer) due(dirty []dataplane.KeyedObject) ([]stuck, error) {
	shards := s.plane.Info().Options.Shards
	seen := make(map[wire.Key]sighting, len(dirty))
	var due []stuck
	for _, d := range dirty {
		now := sighting{d.Object.Version, 1}
		if before := s.seen[d.Key]; before.version == now.version {
			now.looks += before.looks
			s.calm = 0
		}
		seen[d.Key] = now
		if now.looks == 1 || (now.looks > eagerLooks && bits.OnesCount(uint(now.looks)) != 1 && now.looks%maxPause != 0) {
			continue
		}
		shard := d.Key.Shard(shards)
		config, err := s.plane.Config(shard)
		if err != nil {
			return nil, err
		}
		due = append(due, stuck{KeyedObject: d, config: config, shard: shard})
	}
	s.seen = seen
	return due, nil
}

// findWriters looks through the sessions for the writes that the head will send again.
func (s *resyncer) findWriters(due []stuck) error {
	wanted := make(map[uint64][]*stuck)
	missing := 0
	for i := range due {
		if d := &due[i]; d.config.State == chain.Active && d.config.Head() {
			wanted[d.Key.Lo] = append(wanted[d.Key.Lo], d)
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	return s.plane.Sessions(func(k chain.SessionKey, session chain.Session) bool {
		for _, d := range wanted[session.KeyLo] {
			if d.session == 0 && session.WriterOf(d.Key, d.Object.Version) {
				d.session, d.writer = k.Session, session
				missing--
			}
		}
		return missing > 0
	})
}

func (s *resyncer) send(d *stuck) error {
	send, ok := chain.Resync(d.config, d.shard, d.Key, d.Object, d.writer, d.session, s.session)
	if !ok {
		return nil
	}
	s.log.Debug("object stays dirty", "key", d.Key, "version", d.Object.Version, "send", send.Message.Op, "to", send.To)
	s.sent[send.Message.Op].Add(1)
	return s.plane.Send(send)
}

// reporter logs a failure that repeats itself once.
type reporter struct {
	log  *slog.Logger
	what string
	last string
}

func (r *reporter) result(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.last {
		r.log.Warn(r.what, "error", text)
	}
	r.last = text
}
