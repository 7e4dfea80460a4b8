package etcdstudy

import (
	"context"
	"math/rand/v2"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Consistency of reads.
type Consistency string

// Consistencies. A serializable read is answered by the member asked, as it knows things; before a
// linearizable one, that member asks the leader how far it has to be.
const (
	Linearizable Consistency = "linearizable"
	Serializable Consistency = "serializable"
)

// Cell is one measurement of mixed transactions.
type Cell struct {
	Members     int         `json:"members"`
	Consistency Consistency `json:"consistency"`
	PerSecond   float64     `json:"per_second"` // transactions
	Reads       float64     `json:"reads_per_second"`
	Writes      float64     `json:"writes_per_second"`
	Errors      int         `json:"errors"`
	// part of the time in which members had used up their CPU share, on average
	Throttled  float64 `json:"throttled"`
	ClientCPUs float64 `json:"client_cpus"` // that the clients used
	Latency
}

// Kinds of transactions.
const (
	kindRead = iota
	kindWrite
	kinds
)

// rangeLimit is how many pairs a read asks for, as in etcd's benchmark.
const rangeLimit = 1000

// TxnMixed measures transactions that each read all keys or put one, as txn-mixed of etcd's
// benchmark. As by that benchmark's default, all puts are of one key, so a read returns one pair.
func (r *Harness) TxnMixed(ctx context.Context, consistency Consistency, l Load) (*Cell, error) {
	l = l.withDefaults()
	if err := l.validate(); err != nil {
		return nil, err
	}
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(rangeLimit)}
	if consistency == Serializable {
		options = append(options, clientv3.WithSerializable())
	}
	read := clientv3.OpGet("", options...)
	write := clientv3.OpPut(strings.Repeat("\x00", l.KeyBytes), strings.Repeat("v", l.ValueBytes))
	clients := make([]operation, l.Clients)
	for i := range clients {
		conn, random := r.conns[i%len(r.conns)], rand.New(rand.NewPCG(l.Seed, uint64(i)))
		clients[i] = func(ctx context.Context) (int, error) {
			kind, op := kindWrite, write
			if random.Float64() < l.ReadShare {
				kind, op = kindRead, read
			}
			_, err := conn.Txn(ctx).Then(op).Commit()
			return kind, err
		}
	}
	loop, throttled, err := r.run(ctx, clients, kinds, l)
	if err != nil {
		return nil, err
	}
	return &Cell{
		Members: len(r.cluster.Endpoints()), Consistency: consistency,
		PerSecond: loop.perSecond(kindRead) + loop.perSecond(
			kindWrite), Reads: loop.perSecond(kindRead), Writes: loop.perSecond(kindWrite),
		Errors: loop.errors, Throttled: throttled, ClientCPUs: loop.cpus, Latency: loop.Latency,
	}, nil
}
