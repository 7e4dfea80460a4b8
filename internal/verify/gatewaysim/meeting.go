package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// meeting is what makes a placement after a restore meet an object of the history that was lost: by chance it would
// hardly ever draw the generation that an object has. Nothing happens that writes of other clients' keys could not do.
type meeting struct {
	rng    *rand.Rand
	object int64 // the revision of which an object's generation was made that is to be met; 0: none
	passes bool  // etcd's revision passes that of the history that was lost
}

// beginning is about how often gateways write to end sessions and to begin others.
const beginning = 20

// planMeeting plans at a restore, sometimes, that a placement meets an object that is not in the revision's shard: then
// sessions can begin without a comparison of the revision.
func (w *world) planMeeting() {
	m, era := &w.meeting, w.etcd.keys[eraKey].Value
	if m.object, m.passes = 0, false; !w.Meetings || m.rng.IntN(4) == 0 {
		return
	}
	for _, i := range m.rng.Perm(w.Keys) {
		read := core.Op{Kind: core.ReadObject, Key: keyName(i)}
		s := w.shardOf(&read)
		if a := s.of(era).Do(&read); s != w.shards[0] && a.Status == core.OK && !a.Object.Joining {
			m.object, _ = core.Drawn(a.Object.Gen)
		}
	}
}

// meet raises etcd's revision before it answers the first read of a placement, so that the placement draws the
// generation of an object that is there.
func (w *world) meet(p *process, lease string, r *core.Request) {
	last := len(r.Get) - 1
	if w.meeting.object == 0 || last < 0 || len(r.Put) > 0 || r.Get[last] != countKey {
		return
	}
	for _, entry := range r.Get[:last] {
		read := core.Op{Kind: core.ReadObject, Key: strings.TrimPrefix(entry, ownPrefix+core.DirectoryPrefix)}
		s := w.shardOf(&read)
		a := s.of(p.era).Do(&read)
		rev, bit := core.Drawn(a.Object.Gen)
		if s != w.shards[0] && a.Status == core.OK && !a.Object.Joining && rev >= w.etcd.rev && w.etcd.hasBit(lease, bit) {
			w.etcd.raise(rev)
			w.shards[0].away = min(w.shards[0].away, w.Now)
			w.meeting.object, w.meeting.passes = 0, true
			w.result.Met++
			w.note("%s meets the object of %s, of generation %d", p, read.Key, a.Object.Gen)
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
