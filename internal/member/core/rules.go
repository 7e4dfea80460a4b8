package core

// Rule names a rule that tests can switch off, to prove that its absence is noticed.
type Rule uint32

// The rules.
const (
	Push      Rule = 1 << iota // nothing is shown before the register covers it
	Reveal                     // what a member reads from its own store waits too, not only answers of writes
	OwnObject                  // an object is written by compare-and-set on the version that its member read
	Lower                      // each join has a new number, so nobody lowers an object of a view
	Whole                      // the register is known only if the objects of all members count for the view
	Session                    // the right to read fast ends by the member's own clock
	Recheck                    // each read compares the session with the clock, after the chain has answered
	Exact                      // a fast read is answered at the register's revision
	OffWait                    // a member that left shows only what it pushed until no other can read fast
	Members                    // a member leaves, and stays out, before it changes the members
	Floor                      // a read point is not below the revision at which the member saw that all had joined
)

var ruleNames = []string{
	"push", "reveal", "own-object", "lower", "whole", "session", "recheck", "exact", "off-wait", "members", "joining",
}

// RuleNames lists the rules that can be switched off, in the order of their bits.
func RuleNames() []string { return ruleNames }
