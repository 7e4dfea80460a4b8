package store

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

var (
	// ErrDeposed says that this controller does not lead any more, so nothing was written.
	ErrDeposed = errors.New("another controller leads now")
	// ErrTaken says that another controller became leader first.
	ErrTaken = errors.New("another controller became leader first")
	// ErrForeign says that the keys in etcd belong to another program or cluster.
	ErrForeign = errors.New("this place in etcd belongs to somebody else")

	errFormsNow = errors.New("another controller forms the cluster at this moment")
)

// final tells errors that no repetition can help.
func final(err error) bool {
	for _, kind := range []error{ErrDeposed, ErrTaken, ErrForeign, ErrNewer} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// passes tells errors that end by themselves, such as those that etcd gives while it elects a leader.
func passes(err error) bool {
	for _, kind := range []error{
		context.DeadlineExceeded, rpctypes.ErrLeaderChanged, rpctypes.ErrNoLeader, rpctypes.ErrTimeout,
		rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrTimeoutDueToConnectionLost, errFormsNow,
	} {
		if errors.Is(err, kind) || rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(kind) {
			return true
		}
	}
	return false
}

// explain adds advice to an error of etcd.
func explain(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace):
		return "etcd is full (alarm NOSPACE): compact and defragment it, or raise its quota, then run `etcdctl alarm disarm`"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout), errors.Is(err, rpctypes.ErrGRPCTimeout):
		return "etcd does not answer in time: is it overloaded, or are most of its members away?"
	case errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrGRPCNoLeader):
		return "etcd has no leader: most of its members are away"
	}
	return "etcd: " + err.Error()
}
