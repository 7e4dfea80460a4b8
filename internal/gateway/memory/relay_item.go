package memory

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// item is a write in a message of a relay, or a response.
type item struct {
	id   uint64 // of the write, in the stream
	kind byte
	body []byte
}

// Kinds of items.
const (
	itemTxn = iota
	itemPut
	itemAnswer
	itemRefused // not executed
	itemFailed  // the body is a status
	itemCommand // the body is a pb.InternalRaftRequest that writes
)

func (i *item) append(b []byte) []byte {
	b = append(binary.AppendUvarint(b, i.id), i.kind)
	return append(binary.AppendUvarint(b, uint64(len(i.body))), i.body...)
}

var errRelay = errors.New("a message of another gateway has another format")

// next removes the first item of a message.
func next(b []byte) (i item, rest []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 || n == len(b) {
		return i, nil, errRelay
	}
	i.id, i.kind, b = id, b[n], b[n+1:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return i, nil, errRelay
	}
	i.body, b = b[n:n+int(length)], b[n+int(length):]
	return i, b, nil
}

// each receives the next message of a stream and calls do for each of its items.
func each(receive func(any) error, do func(item) error) error {
	var message wrapperspb.BytesValue
	if err := receive(&message); err != nil {
		return err
	}
	for rest := message.Value; len(rest) > 0; {
		var i item
		var err error
		if i, rest, err = next(rest); err == nil {
			err = do(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
