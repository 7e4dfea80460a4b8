package memory

import (
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// Writes, which are most of all calls, have no goroutine of their own: their connection's reader proposes them, or
// relays them to the active gateway. All requests that etcd would refuse, and all that read only, have one.

// begin takes a write.
func (g *Gateway) begin(c *grpcserver.Call, method string, message []byte) bool {
	if method != pb.KV_Txn_FullMethodName && method != pb.KV_Put_FullMethodName {
		return false
	}
	g.mu.Lock()
	l, r := g.lead, g.relay
	g.mu.Unlock()
	switch {
	case l != nil:
		return l.begin(c, method, message)
	case r != nil:
		return r.begin(c, method, message)
	}
	return false
}

// begin proposes a write, unless its checks fail or it only reads.
func (l *leader) begin(call *grpcserver.Call, method string, message []byte) bool {
	command, encoded := decode(method, message)
	if command == nil || l.admit(command, encoded) != nil {
		return false
	}
	c := &quickCall{l, call, encoded[len(encoded)-len(message):]}
	return l.proposals.push(&proposal{command: command, encoded: encoded, caller: c})
}

// Numbers of the fields of a command.
var (
	fieldTxn = fieldOf("txn")
	fieldPut = fieldOf("put")
)

func fieldOf(name protoreflect.Name) protowire.Number {
	return (*pb.InternalRaftRequest)(nil).ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// decode makes a command of a write. It returns nil for all that must not be proposed.
func decode(method string, message []byte) (command *pb.InternalRaftRequest, encoded []byte) {
	field := fieldPut
	if method == pb.KV_Txn_FullMethodName {
		field = fieldTxn
		q := new(pb.TxnRequest)
		if proto.Unmarshal(message, q) != nil || checkTxn(q) != nil || txn.IsTxnReadonly(q) || readsHistory(q) {
			return nil, nil
		}
		command = &pb.InternalRaftRequest{Txn: q}
	} else {
		q := new(pb.PutRequest)
		if proto.Unmarshal(message, q) != nil || checkPut(q) != nil {
			return nil, nil
		}
		command = &pb.InternalRaftRequest{Put: q}
	}
	encoded = make([]byte, 0, protowire.SizeTag(field)+protowire.SizeBytes(len(message)))
	encoded = protowire.AppendTag(encoded, field, protowire.BytesType)
	return command, protowire.AppendBytes(encoded, message)
}

// quickCall is the caller of a write without a goroutine.
type quickCall struct {
	l       *leader
	call    *grpcserver.Call
	message []byte
}

func (c *quickCall) finish(message proto.Message, err error) {
	answer, err := c.l.encode(message, err)
	switch {
	case errors.Is(err, errNotActive):
		c.call.Pass(c.message)
	case err != nil:
		c.call.Fail(err)
	default:
		c.call.Answer(answer)
	}
}

func (c *quickCall) flush() { c.call.Flush() }

// encode completes the header of a command's response, and encodes the response.
func (l *leader) encode(message proto.Message, err error) ([]byte, error) {
	if err != nil {
		return nil, rpcError(err)
	}
	h := message.(headed).GetHeader()
	h.ClusterId, h.MemberId, h.RaftTerm = l.cluster, l.g.member, l.term
	return proto.Marshal(message)
}
