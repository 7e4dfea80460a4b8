package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/platform/eintr"
)

const (
	// pieceBytes is the length of a piece of a snapshot.
	pieceBytes = 256 << 10
	// spareBytes are left free on the disk of a snapshot's file.
	spareBytes = 256 << 20
)

// Snapshot implements etcd's API: a database file as etcd's own, history included, and then its SHA-256. A keyspace on
// disks is saved with all that was acknowledged before, or, if it stands still, as this gateway has it.
func (s *maintenanceServer) Snapshot(_ *pb.SnapshotRequest, down pb.Maintenance_SnapshotServer) error {
	g, ctx := s.g, down.Context()
	if err := g.known(ctx); err != nil {
		return err
	}
	if g.disk != nil {
		if err := g.readOnDisk(ctx); err != nil {
			g.o.Log.Warn("a snapshot may lack the last writes", "error", err)
		}
	}
	f, err := g.database(ctx)
	if err == nil {
		err = errors.Join(sendFile(f, down.Send), f.Close())
	}
	if err != nil {
		g.o.Log.Warn("no snapshot", "error", err)
	}
	return err
}

// database makes a file of etcd with the present contents, for an administrator. It has no name, so that nothing is
// left if this process ends.
func (g *Gateway) database(ctx context.Context) (*os.File, error) {
	space, done, err := g.present()
	if err != nil {
		return nil, err
	}
	if err := g.admit(ctx, space, administrator); err != nil {
		done()
		return nil, err
	}
	contents := space.Database()
	done()
	f, err := os.CreateTemp(g.o.Temporary, "netcraq-snapshot-*")
	if err != nil {
		return nil, status.Errorf(codes.ResourceExhausted, "netcraq: no file for a snapshot: %v", err)
	}
	if err = errors.Join(os.Remove(f.Name()), fits(f, contents)); err == nil {
		err = contents.Write(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	}
	if err != nil {
		return nil, status.Errorf(codes.ResourceExhausted, "netcraq: a snapshot cannot be written: %v", errors.Join(err, f.Close()))
	}
	return f, nil
}

// fits refuses contents whose file could take what the gateway's own disk needs.
func fits(f *os.File, contents *keyspace.Database) error {
	var s unix.Statfs_t
	if err := eintr.Retry(func() error { return unix.Fstatfs(int(f.Fd()), &s) }); err != nil {
		return err
	}
	free, needed := int64(s.Bavail)*s.Bsize, contents.Bytes()+contents.Bytes()/2+spareBytes
	if free < needed {
		return fmt.Errorf("it needs %d bytes on the disk of %s, and %d are free", needed, f.Name(), free)
	}
	return nil
}

// sendFile sends a file and its SHA-256 in pieces.
func sendFile(f *os.File, send func(*pb.SnapshotResponse) error) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	version, sum := keyspace.StorageVersion().String(), sha256.New()
	for left := info.Size(); left > 0; {
		piece := make([]byte, min(left, pieceBytes))
		if _, err := io.ReadFull(f, piece); err != nil {
			return err
		}
		sum.Write(piece)
		left -= int64(len(piece))
		if err := send(&pb.SnapshotResponse{RemainingBytes: uint64(left), Blob: piece, Version: version}); err != nil {
			return err
		}
	}
	return send(&pb.SnapshotResponse{Blob: sum.Sum(nil), Version: version})
}
