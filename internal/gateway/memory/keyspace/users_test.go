package keyspace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// TestUsersEndEarlierVersions: gateways of versions that check no permissions, which read a command as a protocol buffer
// and a snapshot from a number on, can read neither one about users.
func TestUsersEndEarlierVersions(t *testing.T) {
	for _, r := range []*pb.InternalRaftRequest{
		{AuthEnable: new(pb.AuthEnableRequest)}, {AuthUserAdd: &pb.AuthUserAddRequest{Name: "root"}},
		{AuthRoleAdd: &pb.AuthRoleAddRequest{Name: "root"}},
	} {
		b, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if proto.Unmarshal(b, new(pb.InternalRaftRequest)) == nil {
			t.Errorf("%v is a protocol buffer", r)
		}
		if c, err := Decode(b); err != nil || !proto.Equal(c.Request(), r) {
			t.Errorf("%v is decoded as %v, %v", r, c.Request(), err)
		}
	}
	snapshot := bufio.NewReader(bytes.NewReader(appendUsers(nil, []userEntry{{0, []byte("authEnabled"), []byte{1}}})))
	if n, err := binary.ReadUvarint(snapshot); err == nil {
		t.Errorf("a snapshot with users begins with the number %d", n)
	}
}
