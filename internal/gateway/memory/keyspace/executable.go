package keyspace

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
)

// executable refuses a transaction that etcd's store would begin and not be able to finish: one that deletes a key and
// then puts it with the value or the lease that it has. etcd refuses such a put if the key does not exist before the
// transaction. It refuses the transaction if a deletion and a put overlap, but does not take the end "\0" for infinity
// there.
func (k *Keyspace) executable(q *pb.TxnRequest) error {
	if keeps, deletes := keepsAndDeletes(q); !keeps || !deletes {
		return nil
	}
	return (&walk{k: k}).txn(q)
}

// keepsAndDeletes reports whether a transaction may put keys that keep their value or lease, and whether it may delete
// keys.
func keepsAndDeletes(q *pb.TxnRequest) (keeps, deletes bool) {
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		for _, op := range ops {
			put := op.GetRequestPut()
			keeps = keeps || put.GetIgnoreValue() || put.GetIgnoreLease()
			deletes = deletes || op.GetRequestDeleteRange() != nil
			if nested := op.GetRequestTxn(); nested != nil {
				k, d := keepsAndDeletes(nested)
				keeps, deletes = keeps || k, deletes || d
			}
		}
	}
	return keeps, deletes
}

// walk goes through the operations that a transaction will execute, in their order.
type walk struct {
	k       *Keyspace
	deleted []*pb.DeleteRangeRequest
	put     map[string]int // the number of deletions before a put of the key
}

func (w *walk) txn(q *pb.TxnRequest) error {
	ops := q.Success
	if !w.k.holds(q.Compare) {
		ops = q.Failure
	}
	for _, op := range ops {
		switch {
		case op.GetRequestDeleteRange() != nil:
			w.deleted = append(w.deleted, op.GetRequestDeleteRange())
		case op.GetRequestPut() != nil:
			p := op.GetRequestPut()
			if (p.IgnoreValue || p.IgnoreLease) && w.gone(p.Key) {
				return etcderrors.ErrKeyNotFound
			}
			if w.put == nil {
				w.put = make(map[string]int)
			}
			w.put[string(p.Key)] = len(w.deleted)
		case op.GetRequestTxn() != nil:
			if err := w.txn(op.GetRequestTxn()); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone reports whether a key was deleted, and not put again.
func (w *walk) gone(key []byte) bool {
	for _, d := range w.deleted[w.put[string(key)]:] {
		if deletes(d, key) {
			return true
		}
	}
	return false
}

// deletes reports whether a deletion includes a key.
func deletes(d *pb.DeleteRangeRequest, key []byte) bool {
	switch {
	case len(d.RangeEnd) == 0:
		return bytes.Equal(d.Key, key)
	case bytes.Compare(key, d.Key) < 0:
		return false
	}
	return len(d.RangeEnd) == 1 && d.RangeEnd[0] == 0 || bytes.Compare(key, d.RangeEnd) < 0
}

// holds reports whether comparisons hold. All comparisons of a transaction, those of nested ones included, are made
// before its first operation.
func (k *Keyspace) holds(compare []*pb.Compare) bool {
	if len(compare) == 0 {
		return true
	}
	a, _, err := txn.Txn(context.Background(), quiet, &pb.TxnRequest{Compare: compare}, true, k.store, k.leases, false)
	return err == nil && a.Succeeded
}
