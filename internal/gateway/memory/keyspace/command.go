package keyspace

import (
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Command is a command of the log. Replacements, which are most of all commands, are not decoded as a whole.
type Command struct {
	request     *pb.InternalRaftRequest // nil: a replacement
	replacement replacement
	encoded     []byte // of a replacement
}

// CommandOf makes a command of a request.
func CommandOf(request *pb.InternalRaftRequest) Command { return Command{request: request} }

// Decode decodes a command. The command keeps the bytes.
func Decode(encoded []byte) (Command, error) {
	if c, ok := DecodeReplacement(encoded); ok {
		return c, nil
	}
	request := new(pb.InternalRaftRequest)
	marked := len(encoded) > 0 && encoded[0] == formatUsers
	if marked {
		encoded = encoded[1:]
	}
	err := proto.Unmarshal(encoded, request)
	if err == nil && marked != isMarked(request) {
		err = errUsers
	}
	return CommandOf(request), err
}

// Encode encodes a command.
func Encode(request *pb.InternalRaftRequest) ([]byte, error) {
	var b []byte
	if isMarked(request) {
		b = []byte{formatUsers}
	}
	return proto.MarshalOptions{}.MarshalAppend(b, request)
}

// isMarked reports whether a command begins with formatUsers.
func isMarked(r *pb.InternalRaftRequest) bool { return ChangesUsers(r) || r.Alarm != nil }

// DecodeReplacement decodes a command if it is a replacement that etcd's checks of transactions pass. The command keeps
// the bytes.
func DecodeReplacement(encoded []byte) (Command, bool) {
	b := fields{encoded}
	transaction, ok := b.bytes(FieldTxn)
	if !ok || !b.end() {
		return Command{}, false
	}
	r, ok := parseReplacement(transaction)
	return Command{replacement: r, encoded: encoded}, ok
}

// Request is the request of a command that is not a replacement.
func (c *Command) Request() *pb.InternalRaftRequest { return c.request }

// whole decodes all of a command.
func (c *Command) whole() (*pb.InternalRaftRequest, error) {
	if c.request != nil {
		return c.request, nil
	}
	request := new(pb.InternalRaftRequest)
	err := proto.Unmarshal(c.encoded, request)
	return request, err
}

// Numbers of the fields of a command.
var (
	FieldTxn = fieldOf(&pb.InternalRaftRequest{}, "txn")
	FieldPut = fieldOf(&pb.InternalRaftRequest{}, "put")
)

func fieldOf(m proto.Message, name protoreflect.Name) protowire.Number {
	return m.ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// Answer is the response to a command.
type Answer struct {
	message  proto.Message // nil: a replacement took place
	replaced int64         // its revision
}

// Message is the response as etcd's API has it.
func (a *Answer) Message() proto.Message {
	if a.message == nil && a.replaced != 0 {
		return replaced(a.replaced)
	}
	return a.message
}

type headed interface{ GetHeader() *pb.ResponseHeader }

var errNoHeader = errors.New("a response without a header")

// Encode encodes the response. The numbers of a header other than the revision are those of h.
func (a *Answer) Encode(h *pb.ResponseHeader) ([]byte, error) {
	if a.message == nil && a.replaced != 0 {
		return encodeReplaced(a.replaced, h), nil
	}
	message, ok := a.message.(headed)
	if !ok {
		return nil, errNoHeader
	}
	own := message.GetHeader()
	own.ClusterId, own.MemberId, own.RaftTerm = h.ClusterId, h.MemberId, h.RaftTerm
	return proto.Marshal(a.message)
}
