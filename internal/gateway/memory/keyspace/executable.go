package keyspace

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Executable refuses a transaction that deletes a range to infinity and puts a key of it. etcd refuses deletions and
// puts that overlap, but does not take the end "\0" for infinity there. Its store cannot execute such a transaction:
// it panics if the put keeps the value or the lease, and otherwise a compaction at that revision removes the key from
// the store and not from the index, so that the next read of the key ends the process. It refuses a put without a key too,
// which etcd's own check refuses: no snapshot could have it.
//
// Every gateway executes each command of the log, so one that ends a gateway would end all of them.
func Executable(q *pb.TxnRequest) error {
	then, otherwise := changesOf(q.Success), changesOf(q.Failure)
	switch {
	case then.nameless || otherwise.nameless:
		return rpctypes.ErrGRPCEmptyKey
	case then.overlap || otherwise.overlap:
		return rpctypes.ErrGRPCDuplicateKey
	}
	return nil
}

// changes are the keys that operations may change: what deletions to infinity begin with, and what is put.
type changes struct {
	first    []byte // the lowest key of deletions to infinity; nil: none
	last     []byte // the highest key that is put; nil: none
	overlap  bool
	nameless bool // something is put without a key
}

func changesOf(ops []*pb.RequestOp) (all changes) {
	for _, op := range ops {
		all.add(changesOfOne(op))
	}
	return all
}

func changesOfOne(op *pb.RequestOp) (c changes) {
	if d := op.GetRequestDeleteRange(); d != nil && len(d.RangeEnd) == 1 && d.RangeEnd[0] == 0 {
		c.first = d.Key
	}
	if p := op.GetRequestPut(); p != nil {
		c.last, c.nameless = p.Key, len(p.Key) == 0
	}
	if q := op.GetRequestTxn(); q != nil { // one of its branches happens
		c = changesOf(q.Success)
		other := changesOf(q.Failure)
		c.overlap = c.overlap || other.overlap
		c.merge(other)
	}
	return c
}

// add adds the changes of an operation of the same branch.
func (c *changes) add(other changes) {
	c.overlap = c.overlap || other.overlap || overlap(c.first, other.last) || overlap(other.first, c.last)
	c.merge(other)
}

func (c *changes) merge(other changes) {
	c.nameless = c.nameless || other.nameless
	if c.first == nil || other.first != nil && bytes.Compare(other.first, c.first) < 0 {
		c.first = other.first
	}
	if bytes.Compare(other.last, c.last) > 0 {
		c.last = other.last
	}
}

func overlap(first, last []byte) bool {
	return first != nil && last != nil && bytes.Compare(first, last) <= 0
}
