package memory

import (
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/calltime"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// Writes, which are most of all calls, have no goroutine of their own: their connection's reader proposes them, or
// relays them to the active gateway. All requests that etcd would refuse, and all that read only, have one.

// begin takes a write, while authentication is not enabled.
func (g *Gateway) begin(c *grpcserver.Call, method string, message []byte) bool {
	if method != pb.KV_Txn_FullMethodName && method != pb.KV_Put_FullMethodName {
		return false
	}
	g.mu.Lock()
	l, r, store := g.lead, g.relay, g.space.Auth()
	g.mu.Unlock()
	switch {
	case store.IsAuthEnabled(): // the handler finds the user
		return false
	case l != nil:
		return l.begin(c, method, message)
	case r != nil:
		return r.begin(c, method, message)
	}
	return false
}

// begin proposes a write, unless its checks fail or it only reads.
func (l *leader) begin(call *grpcserver.Call, method string, message []byte) bool {
	command, encoded, ok := decode(method, message)
	timed := timedCall{call, method, time.Now(), l.g.times}
	return ok && l.push(command, encoded, &quickCall{l, timed, encoded[len(encoded)-len(message):]})
}

// decode makes a command of a write. It returns false for all that must not be proposed.
func decode(method string, message []byte) (command keyspace.Command, encoded []byte, ok bool) {
	field := keyspace.FieldPut
	if method == pb.KV_Txn_FullMethodName {
		field = keyspace.FieldTxn
	}
	encoded = make([]byte, 0, protowire.SizeTag(field)+protowire.SizeBytes(len(message)))
	encoded = protowire.AppendBytes(protowire.AppendTag(encoded, field, protowire.BytesType), message)
	if command, ok = keyspace.DecodePlain(encoded); ok {
		return command, encoded, true
	}
	request := new(pb.InternalRaftRequest)
	if proto.Unmarshal(encoded, request) != nil { // as the other gateways will decode it
		return command, nil, false
	}
	return keyspace.CommandOf(request), encoded, checkCommand(request) == nil
}

// decodeCommand decodes a command of another gateway, and checks it: any client can open a relay while authentication
// is not enabled. proven: the sender has the keyspace's secret.
func decodeCommand(encoded []byte, proven bool) (keyspace.Command, []byte, error) {
	command, err := keyspace.Decode(encoded)
	if err != nil {
		return keyspace.Command{}, nil, status.Error(codes.InvalidArgument, errRelay.Error())
	}
	request := command.Request()
	if request == nil {
		return command, encoded, nil
	}
	if q := request; !proven && (q.Header != nil || q.Authenticate != nil) {
		return command, nil, errNoWrite // it would say who it is, without a proof
	}
	return command, encoded, checkCommand(request)
}

// timedCall is a client's write without a goroutine, whose time is measured. That of a call with a handler is measured
// there.
type timedCall struct {
	*grpcserver.Call
	method string
	began  time.Time
	times  calltime.Times
}

// Answer answers the write.
func (c *timedCall) Answer(response []byte) {
	c.Call.Answer(response)
	c.times.Observe(c.method, c.began)
}

// Fail answers the write with an error.
func (c *timedCall) Fail(err error) {
	c.Call.Fail(err)
	c.times.Observe(c.method, c.began)
}

// quickCall is the caller of a write without a goroutine.
type quickCall struct {
	l       *leader
	call    timedCall
	message []byte
}

func (c *quickCall) finish(a keyspace.Answer, err error) {
	answer, err := c.l.encode(&a, err)
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

// encode encodes a command's response with this gateway's header.
func (l *leader) encode(a *keyspace.Answer, err error) ([]byte, error) {
	if err != nil {
		return nil, rpcError(err)
	}
	return a.Encode(&l.header)
}
