package client

import (
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// keys are those of a cluster with tags; nil in one without. Other operations are refused with [ErrDenied].
func (c *Client) keys() *wire.Keyring {
	if c.options.Follow == nil || !c.view.Load().source.Tags {
		return nil
	}
	if ring := c.options.Follow.Keys(); ring != nil {
		return ring
	}
	return new(wire.Keyring) // none yet: nothing may be sent, nothing is believed
}

// read reads a reply, if the datagram is one whose tag is right.
func (c *Client) read(datagram []byte, from netip.AddrPort, m *wire.Message) bool {
	message, ok := c.keys().Open(datagram, wire.Ends{From: from})
	return ok && wire.DecodeReply(message, m) == nil
}
