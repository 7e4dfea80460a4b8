package keyspace

import (
	"bytes"
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxReads bounds what one transaction, or one deletion, reads: keys and values, and entryOverhead for each of them.
// All gateways of a keyspace must have the same bound. A put and 127 ranges over everything would build 127 copies of
// the keyspace.
const maxReads = 16 << 20

// ErrReads is the answer to a command that would read more than maxReads.
var ErrReads = status.Error(codes.ResourceExhausted, "netcraq: a transaction or deletion in a memory keyspace reads "+
	"16 MiB at most, previous values included: read fewer keys at a time, or by requests of their own")

// CheckReads refuses a transaction that would read more than maxReads. It depends on the transaction and on the present
// objects only, so all gateways decide the same. It builds no part of the answer.
//
// Of two branches the one that reads more counts, and a read after a put counts what was put besides what is present. A
// limited range after a deletion counts as many objects more as were deleted. A single key is never too much, and neither
// are conditions on single keys, which are read one after the other.
func (k *Keyspace) CheckReads(q *pb.TxnRequest) error {
	if readsLittle(q) {
		return nil
	}
	m := meter{k: k, most: maxReads}
	return m.verdict(m.txn(q, 0))
}

func (k *Keyspace) checkDeletion(q *pb.DeleteRangeRequest) error {
	if !q.PrevKv || len(q.RangeEnd) == 0 {
		return nil
	}
	m := meter{k: k, most: maxReads}
	return m.verdict(m.keys(q.Key, q.RangeEnd, mvcc.RangeOptions{}, 0))
}

// TxnReads returns what a transaction reads, as [Keyspace.CheckReads] measures it, and 0 if that is one key at most. It
// stops soon above maxReads.
func (k *Keyspace) TxnReads(q *pb.TxnRequest) int64 {
	if readsLittle(q) {
		return 0
	}
	m := meter{k: k, most: maxReads}
	return m.txn(q, 0)
}

// measuredAtATime is how many keys of a range are looked at together.
const measuredAtATime = 1024

// RangeReads returns what a range reads: keys and values, and entryOverhead for each of them; 0 for a single key. It builds
// no part of the answer. Writes that are applied meanwhile may count or not.
func (k *Keyspace) RangeReads(q *pb.RangeRequest) (read int64) {
	o := optionsOf(q)
	if o.CountOnly || len(q.RangeEnd) == 0 {
		return 0
	}
	key, end, left := q.Key, endOf(q.RangeEnd), o.Limit
	if left <= 0 {
		left = math.MaxInt64
	}
	withValues := !o.FastKeysOnly
	for o.FastKeysOnly = true; left > 0; left -= o.Limit {
		o.Limit = min(left, measuredAtATime)
		found, err := k.store.Range(context.Background(), key, end, o)
		if err != nil {
			return read // the store returns the error again when it reads
		}
		for _, n := range k.heap.sizes(found.KVs, withValues) {
			read += n
		}
		if int64(len(found.KVs)) < o.Limit {
			break
		}
		key = append(bytes.Clone(found.KVs[len(found.KVs)-1].Key), 0)
	}
	return read
}

// endOf returns the end of a range as etcd's store takes it: nil for a single key, and an empty one for infinity.
func endOf(end []byte) []byte {
	switch {
	case len(end) == 0:
		return nil
	case len(end) == 1 && end[0] == 0:
		return []byte{}
	}
	return end
}

// readsLittle reports whether a transaction reads one key at most, conditions on single keys aside.
func readsLittle(q *pb.TxnRequest) bool {
	for _, c := range q.Compare {
		if len(c.RangeEnd) > 0 {
			return false
		}
	}
	return readsOneKey(q.Success) && readsOneKey(q.Failure)
}

func readsOneKey(ops []*pb.RequestOp) bool {
	reads := 0
	for _, op := range ops {
		r, d := op.GetRequestRange(), op.GetRequestDeleteRange()
		switch {
		case op.GetRequestTxn() != nil, r != nil && len(r.RangeEnd) > 0, d.GetPrevKv() && len(d.RangeEnd) > 0:
			return false
		case r != nil, d.GetPrevKv(), op.GetRequestPut().GetPrevKv(), op.GetRequestPut().GetIgnoreValue():
			reads++
		}
	}
	return reads <= 1
}

// meter measures what commands read. It stops soon after it has found more than most.
type meter struct {
	k    *Keyspace
	most int64
	// The transaction's puts so far, and how many present objects it has deleted, in both branches of each condition. A later
	// limited range may return as many of those behind them.
	puts    []*pb.PutRequest
	deleted int64
}

func (m *meter) verdict(read int64) error {
	if read > m.most {
		return ErrReads
	}
	return nil
}

// txn adds what a transaction reads to what was read before it.
func (m *meter) txn(q *pb.TxnRequest, read int64) int64 {
	for _, c := range q.Compare {
		if len(c.RangeEnd) > 0 {
			read = m.keys(c.Key, c.RangeEnd, mvcc.RangeOptions{}, read)
		}
	}
	return max(m.ops(q.Success, read), m.ops(q.Failure, read))
}

func (m *meter) ops(ops []*pb.RequestOp, read int64) int64 {
	for _, op := range ops {
		if read > m.most {
			break
		}
		r, p, d := op.GetRequestRange(), op.GetRequestPut(), op.GetRequestDeleteRange()
		switch {
		case r != nil:
			read = m.keys(r.Key, r.RangeEnd, optionsOf(r), read)
		case p != nil:
			if p.PrevKv || p.IgnoreValue {
				read = m.keys(p.Key, nil, mvcc.RangeOptions{}, read)
			}
			m.puts = append(m.puts, p)
		case d != nil:
			if d.PrevKv {
				read = m.keys(d.Key, d.RangeEnd, mvcc.RangeOptions{}, read)
			}
			m.delete(d)
		case op.GetRequestTxn() != nil:
			read = m.txn(op.GetRequestTxn(), read)
		}
	}
	return read
}

// delete counts the keys that a deletion removes.
func (m *meter) delete(d *pb.DeleteRangeRequest) {
	found, err := m.k.store.Range(context.Background(), d.Key, endOf(d.RangeEnd), mvcc.RangeOptions{CountOnly: true})
	if err == nil {
		m.deleted += int64(found.Count)
	}
}

// optionsOf returns how etcd's store reads for a request: with a limit only if it neither sorts nor filters what it has
// read.
func optionsOf(r *pb.RangeRequest) mvcc.RangeOptions {
	o := mvcc.RangeOptions{
		Rev: r.Revision, CountOnly: r.CountOnly, FastKeysOnly: r.KeysOnly && r.SortTarget != pb.RangeRequest_VALUE,
	}
	if r.Limit > 0 && txn.IsDefaultOrdering(r.SortTarget, r.SortOrder) && !txn.HasRevisionFilters(r) {
		o.Limit = r.Limit + 1
	}
	return o
}

// keys adds what the keys of a range take.
func (m *meter) keys(key, end []byte, o mvcc.RangeOptions, read int64) int64 {
	if o.CountOnly {
		return read
	}
	one := len(end) == 0
	end = endOf(end)
	for _, p := range m.puts {
		order := bytes.Compare(p.Key, key)
		if order == 0 || !one && order > 0 && (len(end) == 0 || bytes.Compare(p.Key, end) < 0) {
			read += entryOverhead + int64(len(p.Key)+len(p.Value))
		}
	}
	if read > m.most {
		return read
	}
	enough := (m.most-read)/entryOverhead + 1
	if o.Limit <= 0 || o.Limit > enough-min(m.deleted, enough) {
		o.Limit = enough
	} else {
		o.Limit += m.deleted
	}
	withValues := !o.FastKeysOnly
	o.FastKeysOnly = true
	found, err := m.k.store.Range(context.Background(), key, end, o)
	if err != nil {
		return read // the store returns the error again when it executes the command
	}
	for _, n := range m.k.heap.sizes(found.KVs, withValues) {
		if read += n; read > m.most {
			break
		}
	}
	return read
}

// unknownPage is how many objects are read at a time at a revision that this copy does not have.
const unknownPage = 16

// Fitting returns how many objects of a range, at least one, take a number of bytes at most, with entryOverhead for each.
func (k *Keyspace) Fitting(q *pb.RangeRequest, most int64) (n int64) {
	if len(q.RangeEnd) == 0 {
		return 1
	}
	found, err := k.store.Range(context.Background(), q.Key, endOf(q.RangeEnd), mvcc.RangeOptions{
		Rev: q.Revision, FastKeysOnly: true, Limit: most/entryOverhead + 1,
	})
	if err != nil {
		return unknownPage
	}
	read := int64(0)
	for _, size := range k.heap.sizes(found.KVs, true) {
		if read += size; read > most {
			break
		}
		n++
	}
	return max(n, 1)
}

// sizes returns what objects take, with or without their values.
func (h *heap) sizes(keys []*mvccpb.KeyValue, withValues bool) []int64 {
	all := make([]int64, len(keys))
	var objects [][]byte
	if withValues {
		objects = h.objects(keys)
	}
	for i, kv := range keys {
		if all[i] = entryOverhead + int64(len(kv.Key)); withValues {
			all[i] = entryOverhead + int64(len(objects[i]))
		}
	}
	return all
}
