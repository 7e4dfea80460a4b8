package peer

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

const (
	// format is of the calls and of the contents of disks.
	format = 1
	// callerKey is the key of the metadata that has the caller.
	callerKey = "netcraq-keyspace-caller-bin"
	// pieceBytes is the most bytes of a content in one message. The server receives so short ones without waiting for the
	// memory of clients' requests.
	pieceBytes = 15 << 10
)

// Keyspace is what the gateways of a keyspace know of it.
type Keyspace struct {
	Name   string
	ID     uint64
	Secret []byte
}

// calling adds the caller to the metadata of a call to a gateway.
func (k *Keyspace) calling(ctx context.Context, to uint64) (context.Context, error) {
	encoded, err := proto.Marshal(&keyspacev1.Caller{Format: format, Keyspace: k.ID, Secret: k.Secret, Called: to})
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, callerKey, string(encoded)), nil
}

// check refuses a call that is not of this keyspace, or is for another gateway than the one with the name self.
func (k *Keyspace) check(ctx context.Context, self uint64) error {
	md, _ := metadata.FromIncomingContext(ctx)
	said, caller := md.Get(callerKey), new(keyspacev1.Caller)
	switch {
	case len(said) != 1 || proto.Unmarshal([]byte(said[0]), caller) != nil:
		return status.Error(codes.PermissionDenied, "this is for gateways of the keyspace only")
	case caller.GetFormat() != format:
		return status.Errorf(codes.FailedPrecondition, "the calling gateway has format %d, and this one %d: "+
			"run the same release on all gateways of the keyspace", caller.GetFormat(), format)
	case caller.GetKeyspace() != k.ID:
		return status.Errorf(codes.FailedPrecondition, "the calling gateway is of the keyspace with the number %x, and this one "+
			"of %s with %x", caller.GetKeyspace(), k.Name, k.ID)
	case subtle.ConstantTimeCompare(caller.GetSecret(), k.Secret) != 1:
		return status.Error(codes.PermissionDenied, "the calling gateway has another secret of the keyspace")
	case caller.GetCalled() != self:
		return status.Errorf(codes.FailedPrecondition, "this is gateway %x, and not %x", self, caller.GetCalled())
	}
	return nil
}

// statusOf gives the error of a handler a status.
func statusOf(err error) error {
	if errors.Is(err, driver.ErrRefused) {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// plain is the error of a call.
func plain(to *driver.Gateway, err error) error {
	text := callerror.Text(err)
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.PermissionDenied:
		return fmt.Errorf("gateway %s at %s: %w: %s", to.Member, to.Address, driver.ErrRefused, text)
	case codes.Unimplemented:
		return fmt.Errorf("gateway %s at %s: %w: it serves no keyspace on disks", to.Member, to.Address, driver.ErrRefused)
	}
	return fmt.Errorf("gateway %s at %s: %s", to.Member, to.Address, text)
}

func encodePosition(p core.Position) *keyspacev1.Position {
	return &keyspacev1.Position{Era: p.Era, Index: p.Index, Term: p.Term}
}

func decodePosition(p *keyspacev1.Position) core.Position {
	return core.Position{Era: p.GetEra(), Index: p.GetIndex(), Term: p.GetTerm()}
}

func encodeDisk(d core.Disk) *keyspacev1.Disk {
	return &keyspacev1.Disk{Name: d.Name, Identity: d.Identity}
}

func decodeDisk(d *keyspacev1.Disk) core.Disk {
	return core.Disk{Name: d.GetName(), Identity: d.GetIdentity()}
}

func encodeAnswer(d core.Disk, a core.Answer) *keyspacev1.Answer {
	return &keyspacev1.Answer{Disk: encodeDisk(d), Last: encodePosition(a.Last), Promised: a.Promised}
}

func decodeAnswer(a *keyspacev1.Answer) (core.Disk, core.Answer) {
	return decodeDisk(a.GetDisk()), core.Answer{Last: decodePosition(a.GetLast()), Promised: a.GetPromised()}
}
