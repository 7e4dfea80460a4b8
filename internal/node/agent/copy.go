package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/wire"
)

const (
	// importAtOnce is how many objects or sessions go to the plane in one step: an order that comes meanwhile waits for
	// it.
	importAtOnce = 128
	// copyPause is the pause after a copy that failed, before it begins again.
	copyPause = 200 * time.Millisecond
)

// runCopy runs a job until it is over, or no longer wanted.
func (m *membership) runCopy(ctx context.Context, job reconfig.Copy) {
	log := m.log.With("source", job.Source, "shards", len(job.Shards))
	begin := time.Now()
	end := m.hurry(isUrgent(job.Since))
	objects, err := m.pull(ctx, job)
	end()
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, dataplane.ErrFull):
		m.copied.ended[copyFull].Add(1)
		log.Error("cannot copy shards to this node: it needs more room, see --objects", "error", err)
	case err != nil:
		m.copied.ended[copyFailed].Add(1)
		log.Warn("a copy of shards to this node broke off; trying again", "error", callerror.Text(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(copyPause):
		}
	default:
		m.copied.ended[copyDone].Add(1)
		log.Info("copied shards to this node", "objects", objects, "took", time.Since(begin).Round(time.Millisecond))
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	if err == nil {
		m.member.CopyDone(job.Job)
		m.sessions.forget(slices.Collect(maps.Keys(job.Since)))
	} else {
		m.member.CopyFailed(job.Job)
	}
	m.work()
}

// hurry notes an urgent copy, until the function that it returns is called.
func (m *membership) hurry(urgent bool) (end func()) {
	if m == nil || !urgent {
		return func() {}
	}
	m.urgent.Add(1)
	return func() { m.urgent.Add(-1) }
}

// pull copies the objects and sessions of a job, and returns when the source says that these were all.
func (m *membership) pull(ctx context.Context, job reconfig.Copy) (objects int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, conn, err := Dial(job.Source, m.join.DialOptions...)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	request, known, err := m.exportRequest(&job)
	if err != nil {
		return 0, err
	}
	stream, err := client.Export(ctx, request)
	if err != nil {
		return 0, err
	}
	for checked := false; ; checked = true {
		in, err := stream.Recv()
		if err == nil && !checked {
			err = m.checkSource(stream.Context(), job.Source)
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the source stopped before the end")
		}
		if err != nil {
			return objects, err
		}
		part, sessions, err := ParseExport(in)
		if err != nil {
			return objects, err
		}
		var same []dataplane.KeyedSession
		for _, session := range in.GetSameSessions() {
			same = append(same, known[session]...)
		}
		if err := m.take(ctx, &job, part, sessions, same); err != nil {
			return objects, err
		}
		m.copied.objects.Add(uint64(len(part)))
		if objects += len(part); in.GetComplete() {
			return objects, nil
		}
	}
}

// take imports copied objects and sessions, and sessions that are here already, in small steps.
func (m *membership) take(
	ctx context.Context, job *reconfig.Copy, objects []dataplane.KeyedObject, sessions, same []dataplane.KeyedSession,
) error {
	pace := newPace(0, restOf(job.Since))
	apply := func(chunk func() error) error {
		m.applying.Lock()
		defer m.applying.Unlock()
		defer m.publish()
		return chunk()
	}
	step := func(chunk func() error) error {
		if err := pace.wait(ctx, 0); err != nil {
			return err
		}
		return apply(chunk)
	}
	fit := func(chunk func() error) error {
		if err := step(chunk); !errors.Is(err, dataplane.ErrFull) {
			return err
		}
		return m.makeRoom(ctx, func() error { return apply(chunk) })
	}
	for part := range slices.Chunk(objects, importAtOnce) {
		if err := step(func() error { return m.member.CopyChunk(job.Job, part, nil) }); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(sessions, importAtOnce) {
		if err := fit(func() error { return m.member.CopyChunk(job.Job, nil, part) }); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(same, importAtOnce) {
		if err := fit(func() error { return m.member.CopySame(job.Job, part) }); err != nil {
			return err
		}
	}
	return nil
}

// roomPause is the longest pause between two tries to store copied sessions in a full table.
const roomPause = 10 * time.Second

// makeRoom tries again to store sessions for which the table had no room, as entries rest long enough to be forgotten
// (W12). The copy goes on where it stopped.
func (m *membership) makeRoom(ctx context.Context, store func() error) error {
	m.log.Error("the copy of shards to this node waits until sessions have rested long enough to be forgotten: "+
		"the table is full; start the node with more --sessions if this lasts", "sessions", m.plane.Info().Options.MaxSessions)
	err := dataplane.ErrFull
	for pause := copyPause; errors.Is(err, dataplane.ErrFull); pause = min(2*pause, roomPause) {
		if _, err := m.sweeper.sweep(true); err != nil {
			return err
		}
		if err = store(); !errors.Is(err, dataplane.ErrFull) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

// maxKeys is how many keys a request may name: one that needs more copies everything.
const maxKeys = 1 << 16

// exportRequest returns the request for the shards of a job. For shards that the node kept, it asks only for the changes and
// for the objects that the node gave up. It also returns the sessions whose digests are in the request.
func (m *membership) exportRequest(job *reconfig.Copy) (
	out *agentv1.ExportRequest, known map[uint64][]dataplane.KeyedSession, err error,
) {
	out = &agentv1.ExportRequest{MaxKibS: m.join.CopyKiBs}
	since := job.Since
	if len(since) > 0 {
		shards := slices.Sorted(maps.Keys(since))
		empty, err := m.givenUp(shards)
		if err != nil {
			return nil, nil, err
		}
		if len(empty) > maxKeys {
			since, empty = nil, nil
		}
		for _, k := range empty {
			out.Keys = append(out.Keys, bytesOf(k))
		}
		m.applying.Lock()
		entries := m.sessions.of(shards)
		m.applying.Unlock()
		known = make(map[uint64][]dataplane.KeyedSession)
		err = eachSession(entries, func(entries []dataplane.KeyedSession) error {
			digest, err := digestOf(entries)
			out.Sessions = append(out.Sessions, digest)
			known[digest.GetSession()] = entries
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	out.Shards = exportShards(job.Shards, since)
	return out, known, nil
}

// exportShards groups shards by their epochs and since when their objects are wanted.
func exportShards(epochs, since map[uint16]uint32) []*agentv1.ExportShards {
	type kind struct{ epoch, since uint32 }
	groups := make(map[kind]*agentv1.ExportShards)
	var out []*agentv1.ExportShards
	for shard, epoch := range epochs {
		k := kind{epoch, since[shard]}
		if groups[k] == nil {
			groups[k] = &agentv1.ExportShards{Epoch: k.epoch, Since: k.since}
			out = append(out, groups[k])
		}
		groups[k].Shards = append(groups[k].Shards, uint32(shard))
	}
	return out
}

// keyBytes is the length of a key on the wire.
const keyBytes = 16

func keyOf(b []byte) wire.Key {
	return wire.Key{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

func bytesOf(k wire.Key) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, keyBytes), k.Hi), k.Lo)
}

// ParseExport decodes a part of a node's export.
func ParseExport(in *agentv1.ExportResponse) (objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession, err error) {
	for _, o := range in.GetObjects() {
		if len(o.GetKey()) != keyBytes || len(o.GetValue()) > wire.MaxValueBytes {
			return nil, nil, fmt.Errorf("an object with a key of %d and a value of %d bytes", len(o.GetKey()), len(o.GetValue()))
		}
		objects = append(objects, dataplane.KeyedObject{Key: keyOf(o.GetKey()), Object: chain.Object{
			Version: o.GetVersion(), Committed: o.GetCommitted(), Epoch: o.GetEpoch(), Tombstone: o.GetTombstone(), Value: o.GetValue(),
		}})
	}
	for _, s := range in.GetSessions() {
		if s.GetShard() >= wire.MaxShards || s.GetOp() > 255 || s.GetStatus() > 255 {
			return nil, nil, fmt.Errorf("a session of shard %d with op %d and status %d", s.GetShard(), s.GetOp(), s.GetStatus())
		}
		sessions = append(sessions, dataplane.KeyedSession{
			Key: chain.SessionKey{Session: s.GetSession(), Shard: uint16(s.GetShard())},
			Session: chain.Session{
				Seq: s.GetSeq(), Version: s.GetVersion(), Result: s.GetResult(), KeyLo: s.GetKeyLo(),
				Op: wire.Op(s.GetOp()), Status: wire.Status(s.GetStatus()),
			},
		})
	}
	return objects, sessions, nil
}
