package keyspace

import (
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// entryOverhead is what a revision of a key takes of memory besides its key and value: in the store, and in the
	// index.
	entryOverhead = 256
	// leaseOverhead is what a lease takes, as etcd estimates it.
	leaseOverhead = 64
)

// Cost is how much memory a command may take.
type Cost struct {
	// Least is what it takes besides values that are present, as etcd estimates it. A command without it is executed
	// however full the keyspace is.
	Least int64
	// Most includes present values that the command writes again.
	Most int64
}

// Cost returns the cost of a command. value is the length of the longest value.
func (c *Command) Cost(value int64) Cost {
	var n, kept int64
	switch {
	case c.request == nil:
		n = entryOverhead + int64(len(c.replacement.key)+len(c.replacement.value))
	case c.request.Put != nil:
		n, kept = putCost(c.request.Put)
	case c.request.Txn != nil:
		n, kept = txnCost(c.request.Txn)
	case c.request.LeaseGrant != nil:
		n = leaseOverhead
	}
	if kept > 1 { // together they are a read
		return Cost{n, n + min(kept*value, max(maxReads, value))}
	}
	return Cost{n, n + kept*value}
}

// putCost returns what a put takes, and how many present values it writes again.
func putCost(p *pb.PutRequest) (n, kept int64) {
	if p.IgnoreValue {
		kept = 1
	}
	return entryOverhead + int64(len(p.Key)+len(p.Value)), kept
}

func txnCost(q *pb.TxnRequest) (n, kept int64) {
	for _, ops := range [][]*pb.RequestOp{q.Success, q.Failure} {
		var sum, again int64
		for _, op := range ops {
			var m, k int64
			if p := op.GetRequestPut(); p != nil {
				m, k = putCost(p)
			} else if nested := op.GetRequestTxn(); nested != nil {
				m, k = txnCost(nested)
			}
			sum, again = sum+m, again+k
		}
		n, kept = max(n, sum), max(kept, again)
	}
	return n, kept
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
		for i, named := range slices.Backward(q.places) {
			at, value := int64(named.main), q.value(i)
			n := entryOverhead + named.bytes() + int64(len(value))
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
