package core

import (
	"encoding/binary"
	"errors"
)

// Point is a revision of etcd's store, with an index of Raft's log by which it is applied. The index also covers
// changes that have no revision, such as those of authentication.
type Point struct {
	Revision int64
	Index    uint64
}

// covers reports whether a member that has shown p has shown nothing beyond q.
func (q Point) covers(p Point) bool { return q.Revision >= p.Revision && q.Index >= p.Index }

// join returns the least point that covers both.
func (q Point) join(p Point) Point { return Point{max(q.Revision, p.Revision), max(q.Index, p.Index)} }

// Object is the value of a member's key in the chain.
type Object struct {
	View  uint64 // for which the object counts; 0: for none
	Point Point  // the newest that the member pushed
}

// ObjectSize is the length of an encoded object.
const ObjectSize = 24

// Encode returns the value that the chain stores.
func (o Object) Encode() []byte {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, ObjectSize), o.View)
	value = binary.BigEndian.AppendUint64(value, uint64(o.Point.Revision))
	return binary.BigEndian.AppendUint64(value, o.Point.Index)
}

// ErrObject is the error of a value that is no object.
var ErrObject = errors.New("no object of a member")

// DecodeObject reads a value of the chain.
func DecodeObject(value []byte) (Object, error) {
	if len(value) != ObjectSize || value[8]&0x80 != 0 {
		return Object{}, ErrObject
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(value[8*i:]) }
	return Object{word(0), Point{int64(word(1)), word(2)}}, nil
}
