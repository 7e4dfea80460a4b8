package sim

import (
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// Where requests travel in bundles, clients share machines, as callers of one library do.
const clientsPerMachine = 3

const (
	chanceJoin = 0.75 // that a client which is idle joins in with its next operation
	maxFillers = 3    // reads without a waiting client, to fill a bundle
)

// machine is the machine of a client.
func (w *world) machine(client int) endpoint {
	if w.Bundles > 0 {
		client -= client % clientsPerMachine
	}
	return firstClient + endpoint(client)
}

// hand gives the messages received by a host of clients to all of them: they recognise their own answers.
func (w *world) hand(to endpoint, datagram []byte) {
	for _, message := range parts(datagram) {
		for _, c := range w.clients {
			if c.endpoint() == to {
				c.receive(message)
			}
		}
	}
}

// parts are the messages in a datagram: one for each slot of a bundle, empty where the slot is, or the datagram itself.
func parts(datagram []byte) [][]byte {
	b := wire.Bundle(datagram)
	if !wire.IsBundle(b) || !b.Sound() {
		return [][]byte{datagram}
	}
	list := make([][]byte, b.Count())
	for i := range list {
		list[i], _ = b.Message(i)
	}
	return list
}

// together sends the first attempt of the client's operation in a bundle, with those that idle clients beside it begin
// for the occasion. Later attempts travel alone.
func (c *client) together() {
	party := []*client{c}
	for _, other := range c.w.clients {
		if other.endpoint() == c.endpoint() && other.op == nil && other.left > 0 && c.batching.Float64() < chanceJoin {
			other.begin()
			party = append(party, other)
		}
	}
	var to netip.AddrPort
	var messages []wire.Message
	for _, one := range party {
		choice, ok := one.prepare()
		if !ok {
			continue
		}
		if len(messages) == 0 {
			to = choice
		}
		one.bundled = one.request
		messages = append(messages, one.message)
	}
	c.w.result.Bundled += len(messages)
	if len(messages) > 0 {
		c.send(to, c.fill(messages))
	}
}

// fill adds reads of any keys, in any place.
func (c *client) fill(messages []wire.Message) []wire.Message {
	for range c.batching.IntN(maxFillers + 1) {
		key := c.w.keys[c.batching.IntN(len(c.w.keys))]
		messages = append(messages, wire.Message{Op: wire.OpRead, Key: key, Shard: key.Shard(c.w.Shards)})
	}
	c.batching.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
	return messages
}

// send sends messages in one bundle, whose slots are not always long enough for all that may become of them.
func (c *client) send(to netip.AddrPort, messages []wire.Message) {
	longest := 0
	for i := range messages {
		longest = max(longest, len(messages[i].Append(nil)))
	}
	slot := wire.SlotFor(longest + c.batching.IntN(wire.ChainBytes))
	b := wire.NewBundle(nil, len(messages), slot)
	for i := range messages {
		b.Put(i, &messages[i])
		c.w.noteMessage("sends, in a bundle, to", c.endpoint().addr(), to, &messages[i])
	}
	c.w.send(packet{c.endpoint().addr(), to, b})
}
