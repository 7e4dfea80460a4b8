package client

import (
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// tags are the phase of the cluster's tags (T6), and the keys that are known.
func (c *Client) tags() (wire.Tags, *wire.Keyring) {
	if c.options.Follow == nil {
		return wire.TagsOff, nil
	}
	return c.view.Load().source.Tags, c.options.Follow.Keys()
}

// keys are those to send with; nil: without tags. Operations that they do not allow are refused with [ErrDenied].
func (c *Client) keys() *wire.Keyring {
	phase, ring := c.tags()
	return phase.Asking(ring)
}

// read reads a reply, if the datagram is one whose tag is right.
func (c *Client) read(datagram []byte, from netip.AddrPort, m *wire.Message) bool {
	phase, ring := c.tags()
	message, ok := phase.OpenAnswer(ring, datagram, wire.Ends{From: from})
	return ok && wire.DecodeReply(message, m) == nil
}

// guarded reports whether the cluster takes and sends messages with tags only. Bundles have none.
func (c *Client) guarded() bool {
	phase, _ := c.tags()
	return phase == wire.TagsRequired
}
