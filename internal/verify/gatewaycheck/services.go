package gatewaycheck

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

const (
	// firstLease is the number of the first lease of locks and elections. Clients share the leases, so that the keys have few names
	// and are read before they are made.
	firstLease = 0x10c8
	// observeFor is how long an Observe waits for a leader.
	observeFor = 200 * time.Millisecond
	// LocksPrefix begins the names of locks and elections, behind that of the workload.
	LocksPrefix = "locks/"
	// renamed is how many times locks and elections get other names before other keys are used. A gateway does not cache the absent
	// key of a lock again.
	renamed = 8
)

// service reports whether the operation is one of etcd's services for locks and elections.
func (o *Op) service() bool { return o.Kind >= Lock }

// drawService chooses an operation of a lock or election, or a read of its key. What a client has won it often gives back next.
func (r *run) drawService(rng *rand.Rand, last, op *Op) {
	won := last.Err == nil && rng.IntN(3) > 0
	switch {
	case won && last.Kind == Lock:
		op.Kind, op.Key = Unlock, last.Key
		return
	case won && (last.Kind == Campaign || last.Kind == Proclaim):
		op.Kind, op.Key, op.leader = Proclaim+Kind(rng.IntN(2)), last.Key, last.leader
		return
	}
	number := rng.IntN(r.Locks)
	op.lease = clientv3.LeaseID(firstLease + number)
	prefix := r.Prefix + LocksPrefix
	if r.KeyOps > 0 {
		prefix += fmt.Sprintf("%d.", r.begun.Load()*renamed/int64(r.KeyOps))
	}
	lock, seat := fmt.Sprintf("%slock%d", prefix, number/2), fmt.Sprintf("%sseat%d", prefix, number/2)
	switch draw := rng.IntN(12); {
	case draw < 7:
		op.Key = keyOf([]string{lock, seat}[rng.IntN(2)], op.lease)
	case draw < 9:
		op.Kind, op.Key = Lock, keyOf(lock, op.lease)
	case draw < 11:
		op.Kind, op.Key = Campaign, keyOf(seat, op.lease)
	default:
		op.Kind, op.Key = Leader+Kind(rng.IntN(2)), seat
	}
}

// keyOf is the key that a lease has in a lock or election.
func keyOf(name string, lease clientv3.LeaseID) string { return fmt.Sprintf("%s/%x", name, lease) }

// nameOf is the lock or election of a key.
func nameOf(key string) []byte { return []byte(key[:strings.LastIndexByte(key, '/')]) }

// grant makes the operation's lease, unless it exists.
func (o *Op) grant(ctx context.Context, g *clientv3.Client) error {
	_, err := pb.NewLeaseClient(g.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(o.lease), TTL: leaseSeconds})
	if errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist) {
		return nil
	}
	return err
}

// lock asks the service for locks.
func (o *Op) lock(ctx context.Context, g *clientv3.Client) error {
	service := v3lockpb.NewLockClient(g.ActiveConnection())
	if o.Kind == Unlock {
		answer, err := service.Unlock(ctx, &v3lockpb.UnlockRequest{Key: []byte(o.Key)})
		if err == nil {
			o.Rev = answer.Header.Revision
		}
		return err
	}
	if err := o.grant(ctx, g); err != nil {
		return err
	}
	answer, err := service.Lock(ctx, &v3lockpb.LockRequest{Name: nameOf(o.Key), Lease: int64(o.lease)})
	if err != nil {
		return err
	}
	o.Rev, o.Held, o.Key = answer.Header.Revision, true, string(answer.Key)
	return nil
}

// elect asks the service for elections.
func (o *Op) elect(ctx context.Context, g *clientv3.Client) error {
	service := v3electionpb.NewElectionClient(g.ActiveConnection())
	switch o.Kind {
	case Campaign:
		if err := o.grant(ctx, g); err != nil {
			return err
		}
		answer, err := service.Campaign(ctx, &v3electionpb.CampaignRequest{
			Name: nameOf(o.Key), Lease: int64(o.lease), Value: []byte(o.Value),
		})
		if err != nil {
			return err
		}
		o.Rev, o.Key, o.leader = answer.Header.Revision, string(answer.Leader.Key), answer.Leader
	case Proclaim:
		answer, err := service.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: o.leader, Value: []byte(o.Value)})
		if err != nil {
			return err
		}
		o.Rev, o.Held = answer.Header.Revision, true
	case Resign:
		answer, err := service.Resign(ctx, &v3electionpb.ResignRequest{Leader: o.leader})
		if err != nil {
			return err
		}
		o.Rev = answer.Header.Revision
	default:
		return o.look(ctx, service)
	}
	return nil
}

// look reads the leader of an election. An answer without a leader has no header.
func (o *Op) look(ctx context.Context, service v3electionpb.ElectionClient) error {
	request := &v3electionpb.LeaderRequest{Name: []byte(o.Key)}
	o.Rev = o.Floor
	var answer *v3electionpb.LeaderResponse
	var err error
	if o.Kind == Leader {
		answer, err = service.Leader(ctx, request)
		if err != nil && strings.Contains(err.Error(), concurrency.ErrElectionNoLeader.Error()) {
			return nil
		}
	} else {
		within, cancel := context.WithTimeout(ctx, observeFor)
		defer cancel()
		var stream v3electionpb.Election_ObserveClient
		if stream, err = service.Observe(within, request); err == nil {
			answer, err = stream.Recv()
		}
		if err != nil && within.Err() != nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	o.Rev, o.Key = answer.Header.Revision, string(answer.Kv.Key)
	o.found([]*mvccpb.KeyValue{answer.Kv})
	return nil
}

// judgeService compares an answer of a service with what happened.
func (h *History) judgeService(o *Op, is state) string {
	_, written := h.writes[o.Value]
	wrong := false
	switch o.Kind {
	case Lock:
		wrong = is.Mod == 0 || is.Lease != int64(o.lease)
	case Unlock:
		wrong = is.Mod != 0
	case Campaign: // the header is that of its first transaction; it may have written the value in a second one
		wrong = is.Mod == 0 || is.Create != o.leader.Rev || !written
	case Proclaim:
		wrong = is.rev != o.Rev || is.Value != o.Value
	}
	if wrong {
		return fmt.Sprintf("once: %v; etcd has %+v at that revision", o, is)
	}
	return ""
}
