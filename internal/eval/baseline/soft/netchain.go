package soft

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/eval/baseline/netchain"
)

// NewNetChainTarget makes a target that is a node of NetChain.
func NewNetChainTarget() (*Target[netchain.State, *netchain.Node], error) {
	return newTarget(protocol[netchain.State, *netchain.Node]{
		port: netchain.Port, make: func() *netchain.Node { return new(netchain.Node) },
		self:      func(s netchain.State) netip.Addr { return s.Self },
		moveState: moveNetChain, movePayload: moveList,
	})
}

// moveNetChain changes the node's address and those of failure rules.
func moveNetChain(s netchain.State, change func(netip.Addr) netip.Addr) netchain.State {
	moved := s.Clone()
	moved.Self = change(s.Self)
	moved.Rules = make(map[netchain.Target]netchain.Rule, len(s.Rules))
	for target, rule := range s.Rules {
		target.To = change(target.To)
		if rule.By.IsValid() {
			rule.By = change(rule.By)
		}
		moved.Rules[target] = rule
	}
	return moved
}

// moveList changes the chain in a message. Other payloads stay unchanged.
func moveList(payload []byte, change func(netip.Addr) netip.Addr) []byte {
	m, err := netchain.Decode(payload)
	if err != nil {
		return slices.Clone(payload)
	}
	for i, a := range m.List {
		m.List[i] = change(a)
	}
	return m.Append(nil)
}
