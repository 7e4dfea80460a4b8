package objects

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/internal/verify/gatewaysim"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// draw makes an operation, mostly of the instance that its key has.
func draw(rng *rand.Rand, epoch uint64, instances map[string]int64) core.Op {
	op := core.Op{
		Kind: core.OpKind(rng.IntN(int(core.Remove) + 1)), Key: fmt.Sprint("k", rng.IntN(3)), Epoch: epoch, Bit: uint8(rng.IntN(3)),
		Ticket: uint32(rng.IntN(6)), Clear: rng.IntN(2) == 0, Rev: rng.Int64N(1000), Make: rng.IntN(2) == 0,
	}
	op.Instance = max(1, instances[op.Key]+int64(rng.IntN(3)-1)*int64(rng.IntN(2)))
	op.Entry = core.Entry{State: core.Value + core.State(rng.IntN(4)), Rev: rng.Int64N(1000)}
	if op.Entry.State == core.Value || op.Entry.State == core.Packed {
		op.Entry.Create, op.Entry.Version, op.Entry.Value = 1+rng.Int64N(9), 1+rng.Int64N(9), fmt.Sprint(rng.Uint64())
	}
	if rng.IntN(20) == 0 {
		op.Epoch++
	}
	if op.Kind == core.Create {
		instances[op.Key] = max(instances[op.Key], op.Instance)
	}
	return op
}

// visible is an answer without what an object in the chain does not keep: tickets of bits that are not set.
func visible(a core.Answer) core.Answer {
	for bit := range core.MaxGateways {
		if a.Object.Bits&(1<<bit) == 0 {
			a.Object.Tickets[bit] = 0
		}
	}
	return a
}

// TestStoreIsTheModelsShard executes operations in a real chain and in the shard of internal/verify/gatewaysim, with equal answers.
func TestStoreIsTheModelsShard(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	s := New(softchain.Connect(t, softchain.Start(t, 3, 1, 100)), nil, "test/")
	run := func(op core.Op) core.Answer {
		done := make(chan core.Answer, 1)
		for {
			s.Do(t.Context(), &op, nil, func(a core.Answer) { done <- a })
			if a := <-done; a.Status != core.Away {
				return a
			}
		}
	}
	first := run(core.Op{Kind: core.ReadRevision})
	model := gatewaysim.NewShard(first.Epoch, 100, 0)
	instances, statuses := make(map[string]int64), make(map[core.Status]int)
	for i := range 3000 {
		op := draw(rng, first.Epoch, instances)
		got, want := visible(run(op)), visible(model.Do(&op))
		if got != want {
			t.Fatalf("operation %d, %+v: the chain answers %+v, and the model %+v", i, op, got, want)
		}
		statuses[got.Status]++
	}
	for _, status := range []core.Status{core.OK, core.Gone, core.Miss} {
		if statuses[status] < 50 {
			t.Errorf("statuses %v", statuses)
		}
	}
}
