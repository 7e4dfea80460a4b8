package xdp

import (
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

type attachedAt = []portAttachment

// choiceCase is what there is, and what becomes of it: ports, with "+" those that keep their attachment, and attachments
// that end.
type choiceCase struct {
	names   []string
	cards   []card
	at      attachedAt
	refused map[int]string
	ports   string
	end     string
	left    int
	trouble string
}

var choiceOptions = chain.Options{CellBytes: 1024}

func nic(name string, index int) card {
	return card{name: name, index: index, mtu: 1500, up: true, kind: "veth"}
}

func with(c card, change func(*card)) card { change(&c); return c }

func withProgram(c card) card { return with(c, func(c *card) { c.program = 7 }) }

func on(c card) portAttachment { return portAttachment{name: c.name, index: c.index, program: 7} }

func choices() map[string]choiceCase {
	down := func(c *card) { c.up = false }
	small := func(c *card) { c.mtu = need(choiceOptions) - 1 }
	eth0, eth1 := nic("eth0", 2), nic("eth1", 3)
	many := make([]card, maxPorts+2)
	for i := range many {
		many[i] = nic("eth"+string(rune('a'+i)), 10+i)
	}
	last := withProgram(many[len(many)-1])
	manyHeld := append(slices.Clone(many[:len(many)-1]), last)
	return map[string]choiceCase{
		"first start":           {cards: []card{eth0, eth1}, ports: "eth0 eth1"},
		"named":                 {names: []string{"eth1"}, cards: []card{eth0, eth1}, ports: "eth1"},
		"named twice":           {names: []string{"eth1", "eth1"}, cards: []card{eth0, eth1}, ports: "eth1"},
		"taken over":            {cards: []card{withProgram(eth0)}, at: attachedAt{on(eth0)}, ports: "+eth0"},
		"gone":                  {names: []string{"eth0"}, at: attachedAt{{name: "eth0"}}, end: "eth0", trouble: "no such interface"},
		"all are gone":          {at: attachedAt{{name: "eth0"}}, end: "eth0", trouble: "no Ethernet interface is up"},
		"made anew":             {names: []string{"eth0"}, cards: []card{nic("eth0", 9)}, at: attachedAt{{name: "eth0"}}, ports: "eth0", end: "eth0"},
		"made anew, same index": {names: []string{"eth0"}, cards: []card{eth0}, at: attachedAt{{name: "eth0"}}, ports: "eth0", end: "eth0"},
		"moved away, its index is another's": {names: []string{"eth0"}, cards: []card{eth0}, at: attachedAt{on(eth0)},
			ports: "eth0", end: "eth0"},
		"another program is there": {names: []string{"eth0"}, cards: []card{with(eth0, func(c *card) { c.program = 8 })},
			at: attachedAt{on(eth0)}, ports: "eth0", end: "eth0"},
		"renamed, named": {names: []string{"eth0"}, cards: []card{withProgram(nic("old0", 2))}, at: attachedAt{on(eth0)},
			end: "eth0", trouble: "no such interface"},
		"renamed, and the name taken": {names: []string{"eth0"}, cards: []card{withProgram(nic("old0", 2)), nic("eth0", 9)},
			at: attachedAt{on(eth0)}, ports: "eth0", end: "eth0"},
		"renamed, not named": {cards: []card{withProgram(nic("old0", 2))}, at: attachedAt{on(eth0)}, ports: "old0", end: "eth0"},
		"names swapped": {names: []string{"eth0", "eth1"}, cards: []card{withProgram(nic("eth1", 2)), withProgram(nic("eth0", 3))},
			at: attachedAt{on(eth0), on(eth1)}, ports: "eth0 eth1", end: "eth0 eth1"},
		"no port any more": {names: []string{"eth1"}, cards: []card{withProgram(eth0), eth1}, at: attachedAt{on(eth0)}, ports: "eth1",
			end: "eth0"},
		"one of two is gone": {names: []string{"eth0", "eth1"}, cards: []card{withProgram(eth0)}, at: attachedAt{on(eth0), {name: "eth1"}},
			ports: "+eth0", end: "eth1", trouble: "port eth1: there is no such"},
		"one more comes up":     {cards: []card{withProgram(eth0), eth1}, at: attachedAt{on(eth0)}, ports: "+eth0 eth1"},
		"one is not up":         {cards: []card{eth0, with(eth1, down)}, ports: "eth0"},
		"named and down":        {names: []string{"eth0"}, cards: []card{with(eth0, down)}, ports: "eth0", trouble: "eth0: the interface is down"},
		"goes down":             {cards: []card{with(withProgram(eth0), down), eth1}, at: attachedAt{on(eth0)}, ports: "+eth0 eth1"},
		"all go down":           {cards: []card{with(withProgram(eth0), down)}, at: attachedAt{on(eth0)}, ports: "+eth0", trouble: "is up"},
		"small MTU beside":      {cards: []card{eth0, with(nic("flannel.1", 5), small)}, ports: "eth0", left: 1},
		"small MTU alone":       {cards: []card{with(eth0, small)}, left: 1, trouble: "--port-if"},
		"small MTU, named":      {names: []string{"eth0"}, cards: []card{with(eth0, small)}, trouble: "--cell-bytes"},
		"MTU becomes too small": {cards: []card{with(withProgram(eth0), small), eth1}, at: attachedAt{on(eth0)}, ports: "eth1", end: "eth0", left: 1},
		"no Ethernet":           {cards: []card{with(nic("wg0", 4), func(c *card) { c.other = true }), eth0}, ports: "eth0"},
		"no Ethernet, named":    {names: []string{"wg0"}, cards: []card{with(nic("wg0", 4), func(c *card) { c.other = true })}, ports: "wg0"},
		"part of a bridge": {cards: []card{with(nic("br0", 4), func(c *card) { c.kind = "bridge" }),
			with(eth0, func(c *card) { c.master = 4 })}, ports: "br0"},
		"part of a VRF": {cards: []card{with(nic("red", 4), func(c *card) { c.kind, c.other = "vrf", true }),
			with(eth0, func(c *card) { c.master = 4 })}, ports: "eth0"},
		"refused":  {cards: []card{withProgram(eth0), withProgram(eth1)}, at: attachedAt{on(eth0), on(eth1)}, refused: map[int]string{3: "slow"}, ports: "+eth0", end: "eth1", left: 1},
		"too many": {cards: many, ports: "etha ethb ethc ethd ethe ethf ethg ethh ethi ethj ethk ethl ethm ethn etho ethp", left: 2},
		"too many, one is attached": {cards: manyHeld, at: attachedAt{on(last)},
			ports: "+ethr etha ethb ethc ethd ethe ethf ethg ethh ethi ethj ethk ethl ethm ethn etho", left: 2},
	}
}

// TestChoosePorts compares the choice of ports with what is wanted.
func TestChoosePorts(t *testing.T) {
	for name, c := range choices() {
		got := choose(c.names, c.cards, c.at, choiceOptions, c.refused)
		var ports, end []string
		for _, p := range got.ports {
			mark := ""
			if p.hasProgram {
				mark = "+"
			}
			ports = append(ports, mark+p.name)
		}
		for _, h := range got.end {
			end = append(end, h.name)
		}
		if have := strings.Join(ports, " "); have != c.ports {
			t.Errorf("%s: ports %q, want %q", name, have, c.ports)
		}
		if have := strings.Join(end, " "); have != c.end {
			t.Errorf("%s: ended %q, want %q", name, have, c.end)
		}
		if len(got.left) != c.left {
			t.Errorf("%s: left out %v, want %d", name, got.left, c.left)
		}
		if (got.trouble == "") != (c.trouble == "") || !strings.Contains(got.trouble, c.trouble) {
			t.Errorf("%s: trouble %q, want %q", name, got.trouble, c.trouble)
		}
	}
}
