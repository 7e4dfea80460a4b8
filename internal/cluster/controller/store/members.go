package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// promoteEvery is how often a controller looks for a learner that has caught up.
const promoteEvery = 250 * time.Millisecond

// dialWithin bounds the look whether a member that is to be replaced still runs.
const dialWithin = 500 * time.Millisecond

// ErrExternal says that the controllers' etcd is not their own.
var ErrExternal = errors.New("the controllers use an etcd of their own choice (--etcd-endpoints): change its members with etcdctl")

// Member is a member of the controllers' etcd.
type Member struct {
	Peer             string // address for other members
	Started, Learner bool
}

// Embedded reports whether the controllers run an etcd themselves.
func (s *Store) Embedded() bool { return s.server != nil }

// Members lists the members of the embedded etcd; none of an external one.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	if s.server == nil {
		return nil, nil
	}
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, errors.New(explain(err))
	}
	var members []Member
	for _, m := range list.Members {
		members = append(members, Member{Peer: peerOf(m), Started: m.Name != "", Learner: m.IsLearner})
	}
	return members, nil
}

// Replace makes the place of a member free whose data is lost: the old member is removed, and a learner is added at the
// same address. It has no vote before it has copied everything; then the members promote it. Without the removal etcd
// would take the new member's empty log for one that has forgotten its votes. A repetition changes nothing.
func (s *Store) Replace(ctx context.Context, name, peer string) error {
	switch {
	case s.server == nil:
		return ErrExternal
	case name == s.embedded.Name:
		return fmt.Errorf("%s has its data: it leads", name)
	}
	if conn, err := net.DialTimeout("tcp", peer, dialWithin); err == nil {
		conn.Close()
		return fmt.Errorf("%s runs, and has its data: stop it first", name)
	}
	m, err := s.member(ctx, peer)
	switch {
	case err != nil:
		return err
	case m != nil && m.IsLearner && m.Name == "":
		return nil
	}
	if err := s.RemoveMember(ctx, name, peer); err != nil {
		return err
	}
	return s.AddLearner(ctx, name, peer)
}

// changeOnce bounds a change of the members. Raft may drop such a change, for example while another one is not applied
// or the leader changes, and etcd itself then waits for it for ever. The caller tries again.
func changeOnce(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, tryMax)
}

// AddLearner adds a member that has no vote before it has copied everything; then the members promote it. If there is a
// member at that address, nothing changes.
func (s *Store) AddLearner(ctx context.Context, name, peer string) error {
	if s.server == nil {
		return nil
	}
	if m, err := s.member(ctx, peer); err != nil || m != nil {
		return err
	}
	try, cancel := changeOnce(ctx)
	defer cancel()
	if _, err := s.client.MemberAddAsLearner(try, []string{s.embedded.url(peer)[0].String()}); err != nil {
		if rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrMemberNotFound) {
			// etcd makes the number of a member of its address and the second, and one of that number was removed just now.
			return fmt.Errorf("%w: %s was removed just now", reconfig.ErrControllersChange, name)
		}
		why := explain(err)
		if rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrUnhealthy) {
			why = "with it, those that run would not be a majority, or have run for a few seconds only: start the others, or remove those " +
				"that are gone"
		}
		return fmt.Errorf("%s cannot be added: %s; try again", name, why)
	}
	s.log.Info("added a learner to etcd", "name", name, "peer", peer)
	return nil
}

// RemoveMember removes a member. If there is none at that address, nothing changes.
func (s *Store) RemoveMember(ctx context.Context, name, peer string) error {
	if s.server == nil {
		return nil
	}
	m, err := s.member(ctx, peer)
	if err != nil || m == nil {
		return err
	}
	try, cancel := changeOnce(ctx)
	defer cancel()
	if _, err := s.client.MemberRemove(try, m.ID); err != nil {
		return fmt.Errorf("%s cannot be removed: %s", name, explainMembers(err))
	}
	s.log.Info("removed a controller from etcd", "name", name, "peer", peer)
	return nil
}

// member finds a member of the embedded etcd by its address; nil: there is none.
func (s *Store) member(ctx context.Context, peer string) (*etcdserverpb.Member, error) {
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, errors.New(explain(err))
	}
	for _, m := range list.Members {
		if peerOf(m) == peer {
			return m, nil
		}
	}
	return nil, nil
}

// Removed is closed when the embedded etcd has ended, as it does when the others removed it; nil for an external one.
func (s *Store) Removed() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.etcd.Server.StopNotify()
}

// explainMembers adds advice to an error of a change of members.
func explainMembers(err error) string {
	if rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrUnhealthy) ||
		rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrMemberNotEnoughStarted) {
		return "a majority of the others has to run, and to have run for a few seconds"
	}
	return explain(err)
}

// peerOf is the address of a member for others.
func peerOf(m *etcdserverpb.Member) string {
	if len(m.PeerURLs) == 0 {
		return ""
	}
	u, err := url.Parse(m.PeerURLs[0])
	if err != nil {
		return ""
	}
	return u.Host
}

// promote lets learners vote as soon as they have caught up, until ctx ends. Every member tries: etcd does it once.
func (s *Store) promote(ctx context.Context) {
	ticker := time.NewTicker(promoteEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, m := range s.server.etcd.Server.Cluster().Members() { // as this member knows it: no request
			if !m.IsLearner || m.Name == "" || m.ID == s.server.etcd.Server.MemberID() {
				continue
			}
			try, cancel := changeOnce(ctx)
			_, err := s.client.MemberPromote(try, uint64(m.ID))
			cancel()
			if err == nil {
				s.log.Info("a controller has copied the state and votes again", "name", m.Name)
			}
		}
	}
}
