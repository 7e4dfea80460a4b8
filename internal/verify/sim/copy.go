package sim

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	longestChunk = 2 * time.Millisecond
	redial       = 10 * time.Millisecond
	chanceBreak  = 0.03 // that a copy breaks, at each chunk
)

// copyJob is a copy that an agent receives: a stream from another agent, in order, that may break.
type copyJob struct {
	a       *agent
	job     uint64
	source  *agent
	shards  map[uint16]uint32
	since   map[uint16]uint32 // empty: everything is wanted
	asked   map[wire.Key]bool
	keys    []int
	listed  bool // keys are those that are wanted
	ended   bool
	arrival uint64 // of the last chunk
}

// copy starts and stops copies until those run that shall.
func (a *agent) copy(wanted []reconfig.Copy) {
	for job, c := range a.copies {
		if !slices.ContainsFunc(wanted, func(w reconfig.Copy) bool { return w.Job == job }) {
			c.ended = true
			delete(a.copies, job)
		}
	}
	for _, w := range wanted {
		if a.copies[w.Job] == nil {
			c := &copyJob{a: a, job: w.Job, shards: maps.Clone(w.Shards), since: maps.Clone(w.Since),
				asked: make(map[wire.Key]bool)}
			a.copies[w.Job] = c
			a.n.w.note(every, every, "%s copies shards %v from %s, job %d", a.n.name,
				slices.Sorted(maps.Keys(w.Shards)), w.Source, w.Job)
			c.start(w.Source)
		}
	}
}

// start asks the source, which is named as nodes name their agents here.
func (c *copyJob) start(source string) {
	w := c.a.n.w
	for i, key := range w.keys {
		if _, ok := c.shards[key.Shard(w.Shards)]; ok {
			c.keys = append(c.keys, i)
		}
	}
	if len(c.since) > 0 {
		doubtful, err := c.a.n.plane.Doubtful(slices.Sorted(maps.Keys(c.shards)))
		w.watch.fail(err)
		for _, k := range doubtful {
			c.asked[k] = true
		}
	}
	c.a.n.rng.Shuffle(len(c.keys), func(i, j int) { c.keys[i], c.keys[j] = c.keys[j], c.keys[i] })
	for _, n := range w.nodes {
		if n.name == source && n.agent != nil && w.net.open(control, c.a.n.endpoint(), n.endpoint()) {
			c.source = n.agent
			w.after(w.net.delay(), c.next)
			return
		}
	}
	c.breaks()
}

// mayExport reports whether the source may be copied from now. It is checked before each chunk, also the last one, because
// a copy may be called complete only if its source was complete.
func (c *copyJob) mayExport() bool {
	source, w := c.source, c.a.n.w
	if source.n.agent != source || !w.net.open(control, source.n.endpoint(), c.a.n.endpoint()) ||
		source.lease.Left(source.n.time()) <= 0 {
		return false
	}
	for _, shard := range slices.Sorted(maps.Keys(c.shards)) {
		if err := source.member.MayExport(shard, c.shards[shard]); err != nil {
			w.note(int(shard), every, "%s does not export: %v", source.n.name, err)
			return false
		}
	}
	return !w.happens(source.n.rng, CopyBreak, chanceBreak)
}

// next sends one object, or at last all sessions.
func (c *copyJob) next() {
	source, w := c.source, c.a.n.w
	if c.ended {
		return
	}
	if busy := max(source.n.asleep, source.n.paused); w.now < busy {
		w.events.push(busy, c.next)
		return
	}
	if !c.mayExport() {
		c.breaks()
		return
	}
	if c.list(); len(c.keys) > 0 {
		key := w.keys[c.keys[0]]
		c.keys = c.keys[1:]
		if o, ok, err := source.n.plane.Object(key); ok {
			w.watch.fail(err)
			o.Value = slices.Clone(o.Value)
			c.send(func() {
				w.watch.fail(c.a.member.CopyChunk(c.job, []dataplane.KeyedObject{{Key: key, Object: o}}, nil))
			})
		}
		w.after(source.n.rng.Uint64N(uint64(longestChunk)), c.next)
		return
	}
	var sessions []dataplane.KeyedSession
	w.watch.fail(source.n.plane.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		if _, ok := c.shards[k.Shard]; ok {
			sessions = append(sessions, dataplane.KeyedSession{Key: k, Session: s})
		}
		return true
	}))
	slices.SortFunc(sessions, func(a, b dataplane.KeyedSession) int { // a full table takes the first ones
		return cmp.Or(cmp.Compare(a.Key.Session, b.Key.Session), cmp.Compare(a.Key.Shard, b.Key.Shard))
	})
	c.send(func() { c.finish(sessions) })
}

// finish stores the sessions, as soon as there is room for them.
func (c *copyJob) finish(sessions []dataplane.KeyedSession) {
	w := c.a.n.w
	err := c.a.member.CopyChunk(c.job, nil, sessions)
	if errors.Is(err, dataplane.ErrFull) {
		c.a.after(redial, func() {
			if !c.ended {
				c.finish(sessions)
			}
		})
		return
	}
	w.watch.fail(err)
	delete(c.a.copies, c.job)
	c.ended = true
	w.note(every, every, "%s: job %d is done", c.a.n.name, c.job)
	c.a.member.CopyDone(c.job)
	c.a.progressed()
}

// list has the source look which objects are wanted, once.
func (c *copyJob) list() {
	w := c.a.n.w
	if c.listed {
		return
	}
	c.listed = true
	if len(c.since) == 0 {
		return
	}
	c.keys = slices.DeleteFunc(c.keys, func(i int) bool {
		o := w.watch.object(c.source.n, i)
		return !c.asked[w.keys[i]] && !dataplane.Changed(&o, c.since[w.keys[i].Shard(w.Shards)])
	})
	w.result.Returns++
	w.note(every, every, "%s: job %d needs %d objects after %v, of which it asks for %d",
		c.a.n.name, c.job, len(c.keys), c.since, len(c.asked))
}

// send lets the receiver do something, after all that was sent before.
func (c *copyJob) send(do func()) {
	w := c.a.n.w
	c.arrival = max(c.arrival+1, w.now+w.net.delay())
	w.events.push(c.arrival, func() {
		c.a.soon(func() {
			if !c.ended {
				do()
			}
		})
	})
}

// breaks lets the receiver find out, some time later.
func (c *copyJob) breaks() {
	c.a.after(redial, func() {
		if c.ended {
			return
		}
		c.ended = true
		delete(c.a.copies, c.job)
		c.a.n.w.note(every, every, "%s: job %d breaks off", c.a.n.name, c.job)
		c.a.member.CopyFailed(c.job)
		c.a.progressed()
	})
}
