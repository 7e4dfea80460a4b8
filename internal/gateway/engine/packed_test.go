package engine

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/packing"
)

// A value that was packed with a dictionary that this gateway has not read yet is a miss.
func TestUnknownDictionaryIsAMiss(t *testing.T) {
	e := &Engine{packing: packed{set: packing.New()}}
	o := &core.Object{Entry: core.Entry{State: core.Packed, Rev: 4, Value: "\x07anything"}}
	if message := e.encode("key", &pb.ResponseHeader{}, 5, o); message != nil {
		t.Errorf("%q", message)
	}
	o.State = core.Value
	if message := e.encode("key", &pb.ResponseHeader{}, 5, o); message == nil {
		t.Error("a value that is not packed is no answer")
	}
}
