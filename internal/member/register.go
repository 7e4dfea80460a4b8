// Package member makes an etcd server answer linearizable reads through a chain, in the place of a round trip to its
// leader. The chain holds the newest revision that a member may have shown (the register).
//
// [Front] is the part that clients' calls pass: interceptors of etcd's own gRPC server. It knows two operations of the
// register: which revision a read has to be answered at, and whether a revision may be shown.
package member

import "context"

// Point is a moment of the cluster's history.
type Point struct {
	Revision int64
	Index    uint64 // of the Raft entry by which the revision is applied, or a later one
}

// Register tells what members have shown.
type Register interface {
	// ReadPoint returns a point such that every revision, and every change without a revision, that a member had shown when
	// ReadPoint was called is at most this one. ok is false if the chain cannot tell: etcd has to answer.
	ReadPoint(ctx context.Context) (p Point, ok bool)
	// Reveal returns nil when a point may be shown. An index of 0 stands for the one that belongs to the revision.
	Reveal(ctx context.Context, p Point) error
	// Pause ends fast reads at all members, and returns when they have ended. They begin again after resume.
	Pause(ctx context.Context) (resume func(), err error)
}
