package sim

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/chain"
)

func (w *world) members() []netip.AddrPort {
	var list []netip.AddrPort
	for _, i := range w.chain {
		list = append(list, w.nodes[i].addr)
	}
	return list
}

func (w *world) configure(i int, state chain.State) {
	c := chain.ShardConfig{Epoch: w.epoch, State: state, Self: slices.Index(w.chain, i), Members: w.members()}
	if err := w.nodes[i].node.Configure(0, c); err != nil {
		panic("sim: " + err.Error())
	}
}

func (w *world) grant(i int) {
	if err := w.nodes[i].node.Grant(0, w.now+leaseSteps); err != nil {
		panic("sim: " + err.Error())
	}
}

// renew extends the lease of one member; those that left the chain get no more.
func (w *world) renew() { w.grant(w.chain[w.rng.IntN(len(w.chain))]) }

// fail takes a node out of the chain. Half of them crash; the others are suspected wrongly and go on as they were.
func (w *world) fail() {
	if len(w.chain) == 1 || len(w.repair) > 0 {
		return
	}
	w.failures++
	place := w.rng.IntN(len(w.chain))
	if w.chance(0.5) {
		place = 0 // the head is where most can go wrong
	}
	victim := w.chain[place]
	w.nodes[victim].dead = w.chance(0.5)
	w.chain = slices.Delete(slices.Clone(w.chain), place, place+1)
	w.epoch++
	w.planRepair(victim)
}

func (w *world) continueRepair() {
	if w.repair[0]() {
		w.repair = w.repair[1:]
	}
}

// planRepair is C1: freeze, wait for the lease of the node that left, sync, activate tail first.
func (w *world) planRepair(victim int) {
	frozen := slices.Clone(w.chain)
	w.rng.Shuffle(len(frozen), func(i, j int) { frozen[i], frozen[j] = frozen[j], frozen[i] })
	for _, i := range frozen {
		w.plan(func() { w.configure(i, chain.Frozen) })
	}
	w.repair = append(w.repair, func() bool { return w.now >= w.nodes[victim].node.Lease(0) })
	w.repair = append(w.repair, func() bool { w.planSync(); return true })
}

func (w *world) plan(do func()) {
	w.repair = append(w.repair, func() bool { do(); return true })
}

// planSync is C2. It is planned when the members are frozen, because only then does the head's state stand still.
func (w *world) planSync() {
	act := slices.Clone(w.chain)
	w.rng.Shuffle(len(act), func(i, j int) { act[i], act[j] = act[j], act[i] })
	for _, i := range act {
		w.plan(func() { w.configure(i, chain.Active); w.grant(i) })
	}
	w.plan(func() { w.result.Repairs++ })
}
