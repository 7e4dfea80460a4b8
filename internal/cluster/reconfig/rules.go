package reconfig

import "fmt"

// Rule names a rule of the control plane that tests can switch off, to prove that its absence is noticed.
type Rule uint16

// Rules that can be switched off.
const (
	C1 Rule = 1 << iota // a chain is active only after the leases of nodes that left it; without it there is no wait
	C2                  // the new head is the first complete survivor; without it any survivor is
	C3                  // a learner is no full member before its copy is complete; without it, it is at once
	C4                  // a node that left a chain, or lost its state, joins as new; without it, with its old data
	C5                  // orders carry the term of their leader; without it any order is applied
	C6                  // a heartbeat timeout leaves a chain two complete members; without it, any suspicion removes a node
	C7                  // a returning node gets all changes since it left; without it, only those it asks for
	C8                  // a returning node gives up versions that may not be committed; without it, it keeps them
	C9                  // only copies of a shard's present lineage are of use; without it, older ones are
	G2                  // the bar follows the floor when all below is committed; without it, at once
	G5                  // a copy from before the bar was raised is not used; without it, it is
	L5                  // grants last as long as they said; without it, as long as the present times allow
)

// rules are the names of the rules, in the order of their bits.
var rules = []string{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "G2", "G5", "L5"}

// ParseRule reads a rule's name.
func ParseRule(s string) (Rule, error) {
	for i, name := range rules {
		if s == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("rule %q of the control plane cannot be switched off: want one of %v", s, rules)
}
