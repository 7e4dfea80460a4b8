package conformance

import (
	"math/rand/v2"
	"net"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/wire"
)

// wrongAnswers come before the right one: none is believed, and none ends the operation.
func wrongAnswers(t *testing.T, d *driver) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	stranger, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 66, 33, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	open3(t, d, func(w *world, r *request) {
		right := w.execute(r)
		forged := *right
		forged.Version, forged.Value, forged.Detail = 99, []byte("forged!!"), uint16(wire.StatusOk)
		for _, datagram := range forgeries(&forged, random) {
			w.send(packet{r.node, r.from, datagram})
		}
		_, _ = stranger.WriteToUDPAddrPort(forged.Append(nil), r.from)
		w.answer(r, right)
	})
	k := hexOf("k")
	must(t, d.do(t, "put key=%s value=%s", k, hexOf("right")), 1)
	if o := d.do(t, "get key=%s", k); o.Errors != nil || o.Value != hexOf("right") || o.Version != 1 {
		t.Fatalf("%+v", o)
	}
	if o := d.do(t, "add key=%s delta=1", hexOf("n")); o.Errors != nil || o.Counter != 1 {
		t.Fatalf("%+v", o)
	}
	mustFail(t, d.do(t, "get key=%s", hexOf("absent")), "not_found")
}

// forgeries are datagrams that a client must not take for the answer.
func forgeries(m *wire.Message, random *rand.Rand) (all [][]byte) {
	add := func(change func(m *wire.Message)) {
		other := *m
		change(&other)
		all = append(all, other.Append(nil))
	}
	add(func(m *wire.Message) { m.Request ^= 1 << 63 }) // one that no attempt of the client ever has
	add(func(m *wire.Message) { m.Key.Hi++ })
	add(func(m *wire.Message) { m.Key.Lo += shards })
	add(func(m *wire.Message) { m.Shard ^= 1 })
	add(func(m *wire.Message) { m.Op = wire.OpPut })
	add(func(m *wire.Message) { m.Op = wire.OpAck })
	whole := m.Append(nil)
	spoil := func(at int, seal bool) {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x10
		if seal {
			wire.Seal(b)
		}
		all = append(all, b)
	}
	spoil(0, true)             // the magic
	spoil(2, true)             // the version of the format
	spoil(len(whole)-1, false) // the checksum tells
	for n := range len(whole) {
		all = append(all, whole[:n])
	}
	for range 50 {
		b := make([]byte, random.IntN(wire.MaxDatagramBytes))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if random.IntN(2) == 0 && len(b) > wire.BaseBytes {
			copy(b, whole[:wire.BaseBytes-8])
		}
		all = append(all, b)
	}
	return append(all, nil)
}
