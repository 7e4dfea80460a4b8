package reconfig

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// copying is what a member knows of a shard that it copies.
type copying struct {
	epoch    uint32
	source   string
	job      uint64 // 0: none is to run
	objects  uint64
	bytes    uint64
	complete bool
	hopeless string // why trying again is of no use
}

// Work is what a member wants done beside its orders.
type Work struct {
	Wipe   []uint16 // shards to [dataplane.Plane.Drop]; tell [Member.Wiped]
	Doubt  []uint16 // shards to [dataplane.Plane.Doubt]; tell [Member.Doubted]
	Copies []Copy   // that shall run: what is missing is to be started, what runs and is not here to be stopped
}

// Copy is a copy of some shards from one node. What comes of it goes to [Member.CopyChunk], in order, then to
// [Member.CopyDone] or [Member.CopyFailed].
type Copy struct {
	Job    uint64            // names it for ever
	Source string            // API address of the node to copy from
	Shards map[uint16]uint32 // the epochs of their chains
	// Since is not empty if the node has the shards from an earlier time: only what changed after these epochs is to be copied, and
	// what is empty here: [dataplane.Wanted]. There is one for every shard then.
	Since map[uint16]uint32
}

// Work returns what there is to do now. It is worth asking after every other call.
func (m *Member) Work() Work {
	work := Work{Wipe: slices.Sorted(maps.Keys(m.wiping)), Doubt: slices.Sorted(maps.Keys(m.doubting))}
	at := make(map[uint64]int)
	for _, shard := range slices.Sorted(maps.Keys(m.copies)) {
		c := m.copies[shard]
		if c.job == 0 {
			continue
		}
		i, begun := at[c.job]
		if !begun {
			i = len(work.Copies)
			at[c.job] = i
			work.Copies = append(work.Copies, Copy{Job: c.job, Source: c.source, Shards: make(map[uint16]uint32)})
		}
		work.Copies[i].Shards[shard] = c.epoch
		if since := m.since(shard); since != 0 {
			if work.Copies[i].Since == nil {
				work.Copies[i].Since = make(map[uint16]uint32)
			}
			work.Copies[i].Since[shard] = since
		}
	}
	return work
}

// since is the epoch after which a shard has to be copied to the node; 0: all of it has to be.
func (m *Member) since(shard uint16) uint32 {
	base := m.configs[shard].Base
	if base != 0 && m.options.Without&C7 != 0 {
		return math.MaxUint32
	}
	return base
}

// Doubted says that of these shards nothing is stored any more that C8 gives up.
func (m *Member) Doubted(shards []uint16) error {
	for _, shard := range shards {
		delete(m.doubting, shard)
	}
	if m.order == nil {
		return nil
	}
	return m.applyOrder()
}

// Wiped says that nothing is stored of these shards any more. A shard that the node is still, or again, out of was not
// written to meanwhile: it is joined only after this.
func (m *Member) Wiped(shards []uint16) error {
	for _, shard := range shards {
		delete(m.wiping, shard)
	}
	if m.order == nil {
		return nil
	}
	return m.applyOrder()
}

// copy begins the copies that the order wants of shards, one job a source, and ends those that it does not.
func (m *Member) copy(shards []uint16) {
	jobs := make(map[kind]uint64)
	for _, shard := range shards {
		next, c := m.order.Configs[shard], m.copies[shard]
		switch {
		case next.Source == "" && next.Config.Learner:
		case next.Source == "" && c != nil && c.complete && c.epoch == next.Config.Epoch: // still told
		case next.Source == "":
			m.forget(shard)
		case c != nil && c.epoch == next.Config.Epoch && (c.complete || c.source == next.Source && c.hopeless == ""):
		default:
			m.copies[shard] = &copying{epoch: next.Config.Epoch, source: next.Source, job: m.jobFor(jobs, next.Source, shard)}
		}
	}
}

// kind is what the shards of a job have in common.
type kind struct {
	source string
	again  bool // the node has them from an earlier time
}

func (m *Member) jobFor(jobs map[kind]uint64, source string, shard uint16) uint64 {
	k := kind{source, m.configs[shard].Base != 0}
	if jobs[k] == 0 {
		m.jobs++
		jobs[k] = m.jobs
	}
	return jobs[k]
}

func (m *Member) forget(shard uint16) { delete(m.copies, shard) }

// CopyChunk stores a part of what a job copies, and forgets what the job is no longer wanted for. An error is the plane's;
// the job will not be asked for again if the error says that the tables are full.
func (m *Member) CopyChunk(job uint64, objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	wanted := func(shard uint16) *copying {
		if c := m.copies[shard]; c != nil && c.job == job {
			return c
		}
		return nil
	}
	of := func(o *dataplane.KeyedObject) *copying { return wanted(o.Key.Shard(m.options.Shards)) }
	objects = slices.DeleteFunc(slices.Clone(objects), func(o dataplane.KeyedObject) bool { return of(&o) == nil })
	sessions = slices.DeleteFunc(slices.Clone(sessions), func(s dataplane.KeyedSession) bool { return wanted(s.Key.Shard) == nil })
	if len(objects)+len(sessions) == 0 {
		return nil
	}
	if err := m.plane.Import(objects, sessions); err != nil {
		if errors.Is(err, dataplane.ErrFull) {
			m.giveUp(job, err)
		}
		return err
	}
	for i := range objects {
		c := of(&objects[i])
		c.objects++
		c.bytes += uint64(ObjectBytes + len(objects[i].Object.Value))
	}
	for i := range sessions {
		wanted(sessions[i].Key.Shard).bytes += SessionBytes
	}
	return nil
}

// What an object takes on its way beside its value, and a session, about.
const (
	ObjectBytes  = 40
	SessionBytes = 48
)

// giveUp ends a job that cannot succeed.
func (m *Member) giveUp(job uint64, err error) {
	for _, c := range m.copies {
		if c.job == job {
			c.job, c.hopeless = 0, err.Error()
		}
	}
}

// CopyDone says that all of a job's shards came whole.
func (m *Member) CopyDone(job uint64) {
	for _, c := range m.copies {
		if c.job == job {
			c.job, c.complete = 0, true
		}
	}
}

// CopyFailed says that a job ended before its time. What is still wanted of it becomes another job.
func (m *Member) CopyFailed(job uint64) {
	jobs := make(map[kind]uint64)
	for _, shard := range slices.Sorted(maps.Keys(m.copies)) {
		if c := m.copies[shard]; c.job == job && job != 0 {
			*c = copying{epoch: c.epoch, source: c.source, job: m.jobFor(jobs, c.source, shard)}
		}
	}
}
