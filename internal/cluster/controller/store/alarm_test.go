package store

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// raise raises the alarm of a member that has no space left.
func raise(t *testing.T, s *Store, member uint64) {
	t.Helper()
	_, err := s.server.etcd.Server.Alarm(within(t), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member,
		Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		t.Fatal(err)
	}
}
