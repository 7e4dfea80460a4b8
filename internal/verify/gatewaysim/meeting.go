package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// meeting is what makes a placement after a restore meet an object of the history that was lost: by chance it would
// hardly ever draw the instance that an object has. The object is not in the revision's shard: then sessions can begin
// without a comparison of the revision. Nothing happens that writes of other clients' keys could not do.
type meeting struct {
	rng    *rand.Rand
	object int64 // the revision of which an object's instance was made that is to be met; 0: none
	passes bool  // etcd's revision passes that of the history that was lost
}

// beginning is about how often gateways write to end sessions and to begin others.
const beginning = 20

// awaitMeeting plans, before most restores, that a placement meets an object: as soon as there is one that reads are
// answered from and that was written since it was made, so that the backup lacks its value. All gateways end then, with
// etcd, as in a power failure: no write is under way that would set a bit of the object. If none appears for long,
// nothing is planned.
func (w *world) awaitMeeting(then func()) {
	m := &w.meeting
	if m.object, m.passes = 0, false; !w.Meetings || m.rng.IntN(4) == 0 {
		then()
		return
	}
	w.planMeeting(w.Now+2*uint64(w.Lease), then)
}

func (w *world) planMeeting(until uint64, then func()) {
	if w.calm {
		return
	}
	timeline := w.etcd.keys[timelineKey].Value
	for _, i := range w.meeting.rng.Perm(w.Keys) {
		o := w.objectToMeet(keyName(i), timeline)
		if o == nil || !o.Readable() {
			continue
		}
		if made, _ := core.Drawn(o.Instance); o.Rev > made {
			w.meeting.object = made
			w.stopAll()
			break
		}
	}
	if w.meeting.object > 0 || w.Now >= until {
		then()
	} else {
		w.After(ms, func() { w.planMeeting(until, then) })
	}
}

// objectToMeet is the object of a key in a timeline, if it is not in the revision's shard, and was loaded.
func (w *world) objectToMeet(key, timeline string) *core.Object {
	read := core.Op{Kind: core.ReadObject, Key: key}
	s := w.shardOf(&read)
	if a := s.of(timeline).Do(&read); s != w.shards[0] && a.Status == core.OK && !a.Object.Joining {
		return &a.Object
	}
	return nil
}

// meet raises etcd's revision before it answers the first read of a placement, so that the placement draws the
// instance of an object that is there.
func (w *world) meet(p *process, lease string, r *core.Request) {
	last := len(r.Get) - 1
	if w.meeting.object == 0 || last < 0 || len(r.Put) > 0 || r.Get[last] != countKey {
		return
	}
	for _, entry := range r.Get[:last] {
		key := strings.TrimPrefix(entry, ownPrefix+core.DirectoryPrefix)
		o := w.objectToMeet(key, p.timeline)
		if o == nil {
			continue
		}
		if rev, bit := core.Drawn(o.Instance); rev >= w.etcd.rev && w.etcd.hasBit(lease, bit) {
			w.etcd.raise(rev)
			w.shards[0].away = min(w.shards[0].away, w.Now)
			w.meeting.object, w.meeting.passes = 0, true
			w.result.Met++
			w.note("%s meets the object of %s, of instance %d", p, key, o.Instance)
			return
		}
	}
}

// pass raises etcd's revision after that, before a gateway compares it, above that of the history that was lost.
func (w *world) pass() {
	if w.meeting.passes {
		w.meeting.passes = false
		w.etcd.raise(w.lost[len(w.lost)-1].etcd.rev + 1)
	}
}

// hasBit reports whether a session has a bit.
func (e *etcd) hasBit(lease string, bit uint8) bool {
	return e.keys[fmt.Sprintf("%sbit/%02d", ownPrefix, bit)].Value == lease
}

// raise has other clients write until etcd has a revision.
func (e *etcd) raise(rev int64) {
	for e.rev < rev {
		e.next()
	}
	e.w.changed()
}
