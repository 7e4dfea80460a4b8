package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/wire"
)

// export is one node's copy of some shards on its way to the file.
type export struct {
	backup *backup
	shards []uint32 // in order
	epoch  uint32
	all    int // shards of the cluster
	seen   map[wire.Key]struct{}
}

// run writes a node's objects. An error leaves a part of them in the file.
func (e *export) run(ctx context.Context, node client.Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := e.backup.options
	agent, end, err := o.Agents(node.APIAddr())
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	limit := silence
	if o.MaxKiBs > 0 { // a message may hold about a megabyte
		limit += time.Duration(1024/o.MaxKiBs) * time.Second
	}
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("it sent nothing for %v", limit)) })
	defer watchdog.Stop()
	stream, err := agent.Export(ctx, &agentv1.ExportRequest{
		Shards: []*agentv1.ExportShards{{Epoch: e.epoch, Shards: e.shards}}, MaxKibS: o.MaxKiBs,
	})
	if err != nil {
		return explain(ctx, err)
	}
	e.seen = make(map[wire.Key]struct{})
	for {
		in, err := stream.Recv()
		if err != nil {
			return explain(ctx, err)
		}
		watchdog.Reset(limit)
		if err := e.take(ctx, in.GetObjects()); err != nil {
			return err
		}
		if in.GetComplete() {
			return nil
		}
		e.backup.tell(e.all)
	}
}

// errDenied is the end of a backup: another try would meet the same.
var errDenied = errors.New("not allowed")

// explain says why an export broke off.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return errors.New("it stopped before the end")
	case status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.Unauthenticated:
		return fmt.Errorf("%w: %s", errDenied, status.Convert(err).Message())
	case status.Code(err) == codes.Unavailable:
		return errors.New("its agent does not answer")
	}
	return errors.New(status.Convert(err).Message())
}

// take writes objects. A write of an object may be under way at the node, and be lost with the head yet: such an object is
// read as a client reads it.
func (e *export) take(ctx context.Context, objects []*agentv1.ExportedObject) error {
	var unsettled []client.Op
	for _, in := range objects {
		if len(in.GetKey()) != 16 || len(in.GetValue()) > wire.MaxValueBytes {
			return fmt.Errorf("an object with a key of %d and a value of %d bytes", len(in.GetKey()), len(in.GetValue()))
		}
		key := wire.Key{Hi: binary.BigEndian.Uint64(in.GetKey()), Lo: binary.BigEndian.Uint64(in.GetKey()[8:])}
		if _, ok := slices.BinarySearch(e.shards, uint32(key.Shard(e.all))); !ok {
			return fmt.Errorf("key %v, which is of shard %d and was not asked for", key, key.Shard(e.all))
		}
		if _, again := e.seen[key]; again {
			continue
		}
		e.seen[key] = struct{}{}
		switch {
		case in.GetVersion() != in.GetCommitted():
			unsettled = append(unsettled, client.GetHashedOp(key))
		case in.GetTombstone() || in.GetVersion() == 0:
		default:
			if err := e.backup.writer.add(&Object{key, in.GetVersion(), in.GetValue()}); err != nil {
				return err
			}
		}
	}
	for i, outcome := range e.backup.options.Client.Do(ctx, unsettled) {
		if errors.Is(outcome.Err, client.ErrNotFound) {
			continue
		}
		if outcome.Err != nil {
			return outcome.Err
		}
		key, err := wire.ParseKey(unsettled[i].Key)
		if err != nil {
			return err
		}
		if err := e.backup.writer.add(&Object{key, outcome.Version, outcome.Value}); err != nil {
			return err
		}
	}
	return nil
}
