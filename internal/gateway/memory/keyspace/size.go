package keyspace

import (
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

const (
	// entryOverhead is what a revision of a key takes of memory besides its key and value: in the store, and in the
	// index.
	entryOverhead = 256
	// leaseOverhead is what a lease takes, as etcd estimates it.
	leaseOverhead = 64
)

// Cost is how much memory a command may take, as etcd estimates it. One that costs nothing is executed however full the
// keyspace is.
func (c *Command) Cost() int64 {
	switch {
	case c.request == nil:
		return entryOverhead + int64(len(c.replacement.key)+len(c.replacement.value))
	case c.request.Put != nil:
		return putCost(c.request.Put)
	case c.request.Txn != nil:
		return txnCost(c.request.Txn)
	case c.request.LeaseGrant != nil:
		return leaseOverhead
	}
	return 0
}

func putCost(p *pb.PutRequest) int64 { return entryOverhead + int64(len(p.Key)+len(p.Value)) }

func txnCost(q *pb.TxnRequest) int64 {
	var costs [2]int64
	for i, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		for _, op := range ops {
			if p := op.GetRequestPut(); p != nil {
				costs[i] += putCost(p)
			}
			if nested := op.GetRequestTxn(); nested != nil {
				costs[i] += txnCost(nested)
			}
		}
	}
	return max(costs[0], costs[1])
}

// Written is what all revisions that were ever written have taken. The difference of two moments is what was written
// between them.
func (k *Keyspace) Written() int64 { return k.heap.written.Load() }

// Since is what the revisions after one take.
func (k *Keyspace) Since(revision int64) int64 {
	_, bytes := k.heap.newest(revision, math.MaxInt64)
	return bytes
}

// Cut returns the earliest revision such that those after it take a number of bytes at most, and what they take.
func (k *Keyspace) Cut(most int64) (revision, bytes int64) { return k.heap.newest(0, most) }

// newest goes back from the newest entry to a revision, or until the entries would take more than a number of bytes. It
// returns the revision at which it stopped, and what the entries after it take.
func (h *heap) newest(revision, most int64) (last, bytes int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, q := range slices.Backward(h.revisions.parts) {
		for i, value := range slices.Backward(q.values) {
			at := mvcc.BytesToRev(q.keys[i]).Main
			n := entryOverhead + int64(len(q.keys[i])+len(value))
			if at <= revision || value != nil && bytes+n > most {
				return at, bytes
			}
			if value != nil {
				bytes += n
			}
		}
	}
	return revision, bytes
}
