package reconfig

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// copying is a member's state of a shard that it copies.
type copying struct {
	epoch    uint32
	source   string
	job      uint64 // 0: none is to run
	objects  uint64
	bytes    uint64
	complete bool
	hopeless string // reason not to try again; empty: there is none
}

// Work lists the tasks of a member's caller.
type Work struct {
	Wipe   []uint16 // shards to [dataplane.Plane.Drop]; tell [Member.Wiped]
	Doubt  []uint16 // shards to [dataplane.Plane.Doubt]; tell [Member.Doubted]
	Copies []Copy   // the copies that should run: the caller starts those that are missing, and stops all others
}

// Copy is a copy of some shards from one node. The caller passes its chunks to [Member.CopyChunk], in order, and its end
// to [Member.CopyDone] or [Member.CopyFailed].
type Copy struct {
	Job    uint64            // names it for ever
	Source string            // API address of the node to copy from
	Shards map[uint16]uint32 // the epochs of their chains
	// Since is not empty if the node kept the shards. Then it has an epoch for every shard: objects that changed after that
	// epoch are copied, and those that the node gave up ([dataplane.Wanted]).
	Since map[uint16]uint32
}

// Work returns the present tasks. The caller asks after every other call.
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

// since returns the epoch after which a shard has to be copied; 0: all of it has to be.
func (m *Member) since(shard uint16) uint32 {
	base := m.configs[shard].Base
	if base != 0 && m.options.Without&C7 != 0 {
		return math.MaxUint32
	}
	return base
}

// Doubted reports that the node has given up the objects and sessions of C8 in these shards.
func (m *Member) Doubted(shards []uint16) error {
	for _, shard := range shards {
		delete(m.doubting, shard)
	}
	if m.order == nil {
		return nil
	}
	return m.applyOrder()
}

// Wiped reports that these shards are deleted. The node was not a member of them meanwhile, so nothing was written: it
// joins a shard only after this.
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

// kind identifies the shards that may share a job.
type kind struct {
	source string
	again  bool // the node kept them
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

// CopyChunk stores a part of a job, except for shards that are no longer wanted. An error comes from the plane. If it says
// that the table of objects is full, the job is not repeated. Sessions can be stored again when some were forgotten (W12).
func (m *Member) CopyChunk(job uint64, objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	objects, sessions, err := m.importWanted(job, objects, sessions)
	if err != nil {
		return err
	}
	for i := range objects {
		c := m.copies[objects[i].Key.Shard(m.options.Shards)]
		c.objects++
		c.bytes += uint64(ObjectBytes + len(objects[i].Object.Value))
	}
	for i := range sessions {
		m.copies[sessions[i].Key.Shard].bytes += SessionBytes
	}
	return nil
}

// CopySame is [Member.CopyChunk] for sessions that the source has as they were here: they were not sent.
func (m *Member) CopySame(job uint64, sessions []dataplane.KeyedSession) error {
	_, _, err := m.importWanted(job, nil, sessions)
	return err
}

// importWanted stores the entries of shards that the job still copies, and returns them.
func (m *Member) importWanted(job uint64, objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) (
	[]dataplane.KeyedObject, []dataplane.KeyedSession, error,
) {
	unwanted := func(shard uint16) bool { return m.copies[shard] == nil || m.copies[shard].job != job }
	objects = slices.DeleteFunc(slices.Clone(objects), func(o dataplane.KeyedObject) bool {
		return unwanted(o.Key.Shard(m.options.Shards))
	})
	sessions = slices.DeleteFunc(slices.Clone(sessions), func(s dataplane.KeyedSession) bool { return unwanted(s.Key.Shard) })
	if len(objects)+len(sessions) == 0 {
		return nil, nil, nil
	}
	err := m.plane.Import(objects, sessions)
	if errors.Is(err, dataplane.ErrFull) && len(objects) > 0 {
		m.giveUp(job, err)
	}
	return objects, sessions, err
}

// Approximate sizes in transit of an object without its value, and of a session.
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

// CopyDone reports that all shards of a job are complete.
func (m *Member) CopyDone(job uint64) {
	for _, c := range m.copies {
		if c.job == job {
			c.job, c.complete = 0, true
		}
	}
}

// CopyFailed reports that a job ended early. The shards that are still wanted go to another job.
func (m *Member) CopyFailed(job uint64) {
	jobs := make(map[kind]uint64)
	for _, shard := range slices.Sorted(maps.Keys(m.copies)) {
		if c := m.copies[shard]; c.job == job && job != 0 {
			*c = copying{epoch: c.epoch, source: c.source, job: m.jobFor(jobs, c.source, shard)}
		}
	}
}
