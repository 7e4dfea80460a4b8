package xdp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// card is an interface of the machine.
type card struct {
	name    string
	index   int
	mac     [6]byte
	mtu     int
	up      bool
	kind    string // of link, such as "veth" or "bridge"
	other   bool   // loopback, or no Ethernet: a port only if the user names it
	master  int    // index of the interface that this one is a part of; 0: none
	program uint32 // identifier of its XDP program; 0: none
}

// portAttachment is an attachment to a port, of this process or pinned by a predecessor.
type portAttachment struct {
	name    string // of the port
	index   int    // of its interface now; 0: the interface is gone
	program uint32 // identifier of the program
}

// on reports whether an attachment is that of an interface. The index is not enough: an interface that has moved to
// another namespace keeps its attachment, and its index may be that of another interface here.
func (a portAttachment) on(c card) bool {
	return a.name == c.name && a.index == c.index && a.program == c.program
}

// chosen is an interface that is to be a port.
type chosen struct {
	card
	hasProgram bool // it has its attachment
}

// leftOut is an interface that is no port although nobody excluded it.
type leftOut struct {
	name string
	why  string
}

// choice is which interfaces are ports.
type choice struct {
	ports   []chosen
	end     []portAttachment // attachments that are on none of the ports
	left    []leftOut
	absent  string // which ports there cannot be
	trouble string // why the node does not answer on all its ports: those of absent, and those that are down
}

// need is the least MTU of a port: the longest message fits.
func need(o chain.Options) int { return headersBytes + wire.ChainBytes + o.CellBytes }

// smallMTU returns why an interface cannot be a port; empty: its MTU is large enough.
func smallMTU(name string, mtu int, o chain.Options) string {
	if mtu >= need(o) {
		return ""
	}
	return fmt.Sprintf("port %s: its MTU of %d is too small for values of %d bytes: raise it to %d, or start with "+
		"--cell-bytes %d", name, mtu, o.CellBytes, need(o), mtu-headersBytes-wire.ChainBytes)
}

// choose decides which interfaces are ports, and which attachments stay. Without names all Ethernet interfaces that are
// up are ports, except parts of a bridge or a bond, whose frames the whole answers. An interface that goes down keeps its
// attachment. refused are interfaces that were tried in vain, by index.
func choose(names []string, cards []card, attachments []portAttachment, o chain.Options, refused map[int]string) choice {
	var c choice
	if len(names) > 0 {
		c.named(names, cards, attachments, o)
	} else {
		c.all(cards, attachments, o, refused)
	}
	for _, a := range attachments {
		if !slices.ContainsFunc(c.ports, func(p chosen) bool { return p.hasProgram && p.name == a.name }) {
			c.end = append(c.end, a)
		}
	}
	return c
}

func isAttached(at card, attachments []portAttachment) bool {
	return slices.ContainsFunc(attachments, func(a portAttachment) bool { return a.on(at) })
}

// named chooses the interfaces that the user named.
func (c *choice) named(names []string, cards []card, attachments []portAttachment, o chain.Options) {
	var absent, down []string
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		at := slices.IndexFunc(cards, func(c card) bool { return c.name == name })
		if at < 0 {
			absent = append(absent, fmt.Sprintf("port %s: there is no such interface", name))
			continue
		}
		found := cards[at]
		if why := smallMTU(name, found.mtu, o); why != "" {
			absent = append(absent, why)
			continue
		}
		if !found.up {
			down = append(down, fmt.Sprintf("port %s: the interface is down", name))
		}
		c.ports = append(c.ports, chosen{found, isAttached(found, attachments)})
	}
	c.absent = strings.Join(absent, "; ")
	c.trouble = strings.Join(append(absent, down...), "; ")
}

// all chooses among all interfaces: those that are ports already first, then those that are older.
func (c *choice) all(cards []card, attachments []portAttachment, o chain.Options, refused map[int]string) {
	cards = slices.Clone(cards)
	slices.SortFunc(cards, func(a, b card) int {
		if x, y := isAttached(a, attachments), isAttached(b, attachments); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.index, b.index)
	})
	for _, at := range cards {
		hasProgram := isAttached(at, attachments)
		if at.other || !at.up && !hasProgram || isPart(at, cards) {
			continue
		}
		why := refused[at.index]
		switch {
		case smallMTU(at.name, at.mtu, o) != "":
			why = smallMTU(at.name, at.mtu, o)
		case why == "" && len(c.ports) == maxPorts:
			why = fmt.Sprintf("port %s: a node has at most %d ports: name them with --port-if", at.name, maxPorts)
		}
		if why != "" {
			c.left = append(c.left, leftOut{at.name, why})
			continue
		}
		c.ports = append(c.ports, chosen{at, hasProgram})
	}
	switch {
	case len(c.ports) == 0 && len(c.left) > 0:
		c.absent = "no interface can be a port: " + c.left[0].why + "; or name another interface with --port-if"
	case !slices.ContainsFunc(c.ports, func(p chosen) bool { return p.up }):
		c.absent = "no Ethernet interface is up: name one with --port-if"
	}
	c.trouble = c.absent
}

// isPart reports whether an interface is a part of a bridge or of several links that act as one.
func isPart(c card, cards []card) bool {
	return c.master != 0 && slices.ContainsFunc(cards, func(m card) bool {
		return m.index == c.master && (m.kind == "bridge" || m.kind == "bond" || m.kind == "team")
	})
}
