package controller

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/record"
)

const (
	// keyspaceWithin bounds how long a call waits for etcd: then the gateway asks another controller.
	keyspaceWithin = 5 * time.Second
	// keyspaceEvery is the time between two messages of a stream if nothing changes, so that the gateway notices when this
	// controller is gone.
	keyspaceEvery = time.Second
)

// keyspacesChanged takes the records of all keyspaces.
func (v *view) keyspacesChanged(all map[string]store.KeyspaceRecord) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keyspaces = all
	v.tell()
}

// keyspaceOf reads a record; nil: there is none.
func keyspaceOf(r store.KeyspaceRecord) (*record.Keyspace, error) {
	if r.Version == 0 || r.Err != nil {
		return nil, r.Err
	}
	var message controllerv1.Keyspace
	if err := protojson.Unmarshal(r.Text, &message); err != nil {
		return nil, err
	}
	return record.Decode(&message)
}

// presentKeyspace reads the record of a keyspace as it is now.
func (c *Controller) presentKeyspace(ctx context.Context, name string) (k *record.Keyspace, version uint64, err error) {
	if err := record.CheckName(name); err != nil {
		return nil, 0, status.Error(codes.InvalidArgument, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, keyspaceWithin)
	defer cancel()
	r, err := c.store.Keyspace(ctx, name)
	if ctx.Err() != nil {
		return nil, 0, c.etcdAway()
	}
	if err == nil {
		k, err = keyspaceOf(r)
	}
	if err != nil {
		return nil, 0, status.Errorf(codes.DataLoss, "the record of keyspace %s cannot be read: %v", name, err)
	}
	return k, r.Version, nil
}

func (c *Controller) etcdAway() error {
	return status.Errorf(codes.Unavailable, "this controller does not reach its etcd in time. %s", c.store.Trouble())
}

// Keyspace is of the API.
func (c *Controller) Keyspace(
	in *controllerv1.KeyspaceRequest, stream grpc.ServerStreamingServer[controllerv1.KeyspaceResponse],
) error {
	k, sent, err := c.presentKeyspace(stream.Context(), in.GetName())
	for err == nil {
		out := &controllerv1.KeyspaceResponse{Version: sent}
		if k != nil {
			out.Keyspace = keyspaceFor(security.RoleOf(stream.Context()), k)
		}
		if err := stream.Send(out); err != nil || !in.GetFollow() {
			return err
		}
		k, sent, err = c.nextKeyspace(stream.Context(), in.GetName(), sent)
	}
	return err
}

// keyspaceFor is what a role may know of a keyspace. Without security everybody may know everything.
func keyspaceFor(role security.Role, k *record.Keyspace) *controllerv1.Keyspace {
	out := record.Encode(k)
	if role != "" && role != security.Admin && role != security.Operator {
		out.Secret = nil
	}
	return out
}

// nextKeyspace waits for the record that comes after a version. It returns nil and that version if none comes for long.
func (c *Controller) nextKeyspace(ctx context.Context, name string, after uint64) (*record.Keyspace, uint64, error) {
	within, cancel := context.WithTimeout(ctx, keyspaceEvery)
	defer cancel()
	var r store.KeyspaceRecord
	err := c.view.until(within, func() bool {
		r = c.view.keyspaces[name]
		return r.Version > after
	})
	switch {
	case ctx.Err() != nil:
		return nil, 0, status.FromContextError(ctx.Err()).Err()
	case err != nil && c.store.Trouble() != "":
		return nil, 0, c.etcdAway()
	case err != nil:
		return nil, after, nil
	}
	k, err := keyspaceOf(r)
	if err != nil {
		return nil, 0, status.Errorf(codes.DataLoss, "the record of keyspace %s cannot be read: %v", name, err)
	}
	return k, r.Version, nil
}

// SetKeyspace is of the API.
func (c *Controller) SetKeyspace(
	ctx context.Context, in *controllerv1.SetKeyspaceRequest,
) (*controllerv1.SetKeyspaceResponse, error) {
	after, err := record.Decode(in.GetKeyspace())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	before, version, err := c.presentKeyspace(ctx, after.Name)
	if err != nil {
		return nil, err
	}
	if version != in.GetVersion() {
		return &controllerv1.SetKeyspaceResponse{}, nil
	}
	if err := record.CheckChange(before, after); err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	now, swapped, err := c.setKeyspace(ctx, version, after)
	if err != nil {
		return nil, err
	}
	return &controllerv1.SetKeyspaceResponse{Swapped: swapped, Version: now}, nil
}

// setKeyspace replaces a record that was checked.
func (c *Controller) setKeyspace(ctx context.Context, version uint64, k *record.Keyspace) (uint64, bool, error) {
	text, err := protojson.Marshal(record.Encode(k))
	if err != nil {
		return 0, false, status.Error(codes.InvalidArgument, err.Error())
	}
	within, cancel := context.WithTimeout(ctx, keyspaceWithin)
	defer cancel()
	now, swapped, err := c.store.SetKeyspace(within, k.Name, version, json.RawMessage(text))
	switch {
	case within.Err() != nil && err != nil:
		return 0, false, c.etcdAway()
	case err != nil:
		return 0, false, status.Error(codes.Unavailable, err.Error())
	}
	return now, swapped, nil
}

// GiveUpDisks is of the API.
func (c *Controller) GiveUpDisks(
	ctx context.Context, in *controllerv1.GiveUpDisksRequest,
) (*controllerv1.GiveUpDisksResponse, error) {
	k, version, err := c.presentKeyspace(ctx, in.GetKeyspace())
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, status.Errorf(codes.NotFound, "there is no keyspace %q on disks", in.GetKeyspace())
	}
	var lost []core.Disk
	for _, d := range in.GetDisks() {
		lost = append(lost, core.Disk{Name: d.GetName(), Identity: d.GetIdentity()})
	}
	if k.Record, err = k.GiveUp(lost); err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	k.Gateways = slices.DeleteFunc(k.Gateways, func(g driver.Gateway) bool { // one that comes back is entered again
		return slices.Contains(lost, g.Disk)
	})
	swapped := version == in.GetVersion()
	if swapped {
		_, swapped, err = c.setKeyspace(ctx, version, k)
	}
	switch {
	case err != nil:
		return nil, err
	case !swapped:
		return nil, status.Error(codes.Aborted, "the keyspace has changed meanwhile: look at it again")
	}
	c.log.Info("an operator gave up disks", "keyspace", k.Name, "era", k.Active.Number, "disks", lost)
	return &controllerv1.GiveUpDisksResponse{}, nil
}

// keyspaceStatus lists the keyspaces whose records can be read.
func (c *Controller) keyspaceStatus() (all []*controllerv1.Keyspace) {
	c.view.mu.Lock()
	records := c.view.keyspaces
	c.view.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if k, err := keyspaceOf(records[name]); err == nil && k != nil {
			all = append(all, keyspaceFor(security.Reader, k))
		}
	}
	return all
}
