package keyspace

import (
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Command is a command of the log. Replacements and plain puts, which are most of all commands, are not decoded as a
// whole.
type Command struct {
	request     *pb.InternalRaftRequest // nil: a replacement or a put
	replacement replacement
	encoded     []byte // without a request
}

// CommandOf makes a command of a request.
func CommandOf(request *pb.InternalRaftRequest) Command { return Command{request: request} }

// Decode decodes a command. The command keeps the bytes.
func Decode(encoded []byte) (Command, error) {
	if c, ok := DecodePlain(encoded); ok {
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

// DecodePlain decodes a command if it is a replacement, or a put, that etcd's checks pass. The command keeps the bytes.
func DecodePlain(encoded []byte) (c Command, ok bool) {
	b := fields{encoded}
	if put, is := b.bytes(FieldPut); is {
		c.replacement, ok = parsePut(put)
	} else if transaction, is := b.bytes(FieldTxn); is {
		c.replacement, ok = parseReplacement(transaction)
	}
	c.encoded = encoded
	return c, ok && b.end()
}

// Request is the request of a command that is not plain.
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
	message  proto.Message // nil: a replacement or a put took place
	replaced int64         // its revision
	put      bool
}

// Message is the response as etcd's API has it.
func (a *Answer) Message() proto.Message {
	switch {
	case a.message != nil || a.replaced == 0:
		return a.message
	case a.put:
		return putAnswer(a.replaced)
	}
	return replaced(a.replaced)
}

type headed interface{ GetHeader() *pb.ResponseHeader }

var errNoHeader = errors.New("a response without a header")

// Encode encodes the response. The numbers of a header other than the revision are those of h.
func (a *Answer) Encode(h *pb.ResponseHeader) ([]byte, error) {
	switch {
	case a.message != nil || a.replaced == 0:
	case a.put:
		return encodePut(a.replaced, h), nil
	default:
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
