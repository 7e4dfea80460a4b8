package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// promoteEvery is how often a controller looks for a learner that has caught up.
const promoteEvery = 250 * time.Millisecond

// dialWithin bounds the look whether a member that is to be replaced still runs.
const dialWithin = 500 * time.Millisecond

// ErrExternal says that the controllers' etcd is not their own.
var ErrExternal = errors.New("the controllers use an etcd of their own choice (--etcd-endpoints): change its members with etcdctl")

// ErrUnknown says that no controller has a name.
var ErrUnknown = errors.New("no such controller")

// Member is a member of the controllers' etcd.
type Member struct {
	Name, Peer       string
	Started, Learner bool
}

// Members lists the members of the embedded etcd.
func (s *Store) Members(ctx context.Context) ([]Member, error) {
	if s.server == nil {
		return nil, ErrExternal
	}
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, errors.New(explain(err))
	}
	var members []Member
	for _, m := range list.Members {
		one := Member{Name: m.Name, Started: m.Name != "", Learner: m.IsLearner}
		for name, peer := range s.embedded.Peers {
			if isAt(m, peer) {
				one.Name, one.Peer = name, peer
			}
		}
		members = append(members, one)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return members, nil
}

// Replace makes the place of a member free whose data is lost: the old member is removed, and a learner is added at the
// same address. It has no vote before it has copied everything; then the members promote it. Without the removal etcd
// would take the new member's empty log for one that has forgotten its votes. A repetition changes nothing.
func (s *Store) Replace(ctx context.Context, name string) error {
	if s.server == nil {
		return ErrExternal
	}
	peer, ok := s.embedded.Peers[name]
	switch {
	case !ok:
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	case name == s.embedded.Name:
		return fmt.Errorf("%s has its data: it leads", name)
	}
	if conn, err := net.DialTimeout("tcp", peer, dialWithin); err == nil {
		conn.Close()
		return fmt.Errorf("%s runs, and has its data: stop it first", name)
	}
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return errors.New(explain(err))
	}
	for _, m := range list.Members {
		switch {
		case !isAt(m, peer):
		case m.IsLearner && m.Name == "":
			return nil
		default:
			if _, err := s.client.MemberRemove(ctx, m.ID); err != nil {
				return fmt.Errorf("%s cannot be removed: %s", name, explainMembers(err))
			}
			s.log.Info("removed a controller from etcd", "name", name, "peer", peer)
		}
	}
	if _, err := s.client.MemberAddAsLearner(ctx, []string{s.embedded.url(peer)[0].String()}); err != nil {
		return fmt.Errorf("%s cannot be added: %s; try again", name, explainMembers(err))
	}
	s.log.Info("added a learner to etcd", "name", name, "peer", peer)
	return nil
}

// explainMembers adds advice to an error of a change of members.
func explainMembers(err error) string {
	if rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrUnhealthy) ||
		rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrMemberNotEnoughStarted) {
		return "a majority of the others has to run, and to have run for a few seconds"
	}
	return explain(err)
}

func isAt(m *etcdserverpb.Member, peer string) bool {
	return slices.ContainsFunc(m.PeerURLs, func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Host == peer
	})
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
			try, cancel := context.WithTimeout(ctx, tryMax)
			_, err := s.client.MemberPromote(try, uint64(m.ID))
			cancel()
			if err == nil {
				s.log.Info("a controller has copied the state and votes again", "name", m.Name)
			}
		}
	}
}
