package core

import (
	"fmt"
	"testing"
)

// TestWaitsForABit: a gateway that finds all bits taken serves when one is free.
func TestWaitsForABit(t *testing.T) {
	const freed = 7
	g := served("k", instanceOf(10, 0))
	l := g.life
	l.serving = false
	taken := make(map[string]KV)
	for bit := range uint8(MaxGateways) {
		taken[g.bitKey(bit)] = KV{Value: fmt.Sprintf("h%d.1", bit)}
	}
	g.takeBit(l)
	g.Returned(only[EtcdCall](t, g.Effects()).ID, &Result{Held: true, KVs: taken})
	if len(g.Effects()) > 0 || l.serving {
		t.Fatal("it does not wait")
	}
	delete(taken, g.bitKey(freed))
	g.Tick()
	g.Returned(only[EtcdCall](t, g.Effects()).ID, &Result{Held: true, KVs: taken})
	g.Returned(only[EtcdCall](t, g.Effects()).ID, &Result{Held: true, KVs: map[string]KV{
		g.bitKey(freed): {Value: l.lease, Create: 30}, g.names.session + l.lease: {Create: l.create},
	}})
	if !l.serving || l.bit != freed || l.bitCreate != 30 {
		t.Errorf("serving: %v, bit %d of %d", l.serving, l.bit, l.bitCreate)
	}
}
