// Package member makes an etcd server answer linearizable reads through a chain, in the place of a round trip to its
// leader. The chain holds the newest revision that a member may have shown (the register).
//
// [Front] is the part that clients' calls pass: interceptors of etcd's own gRPC server. It knows two operations of the
// register: which revision a read has to be answered at, and whether a revision may be shown.
package member

import (
	"context"

	"github.com/netcraq/netcraq/internal/member/core"
)

// Register tells what members have shown.
type Register interface {
	// ReadPoint calls then once, with a point such that every revision, and every change without a revision, that a member
	// had shown when ReadPoint was called is at most this one. If the chain cannot tell, it gives the reason: etcd has to
	// answer. What then does delays other reads.
	ReadPoint(then func(core.Point, Reason))
	// Reveal returns nil when a point may be shown. An index of 0 stands for the one that belongs to the revision.
	Reveal(ctx context.Context, p core.Point) error
	// Pause ends fast reads at all members, and returns when they have ended. They begin again after resume.
	Pause(ctx context.Context) (resume func(), err error)
}
