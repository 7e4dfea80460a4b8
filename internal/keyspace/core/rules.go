package core

// Rule names a rule that tests can switch off, to prove that its absence is noticed.
type Rule uint32

// The rules.
const (
	ReadEnd  Rule = 1 << iota // a read is answered only after a look at the log's end that began after the read
	Commit                    // an entry counts when a majority of the era's disks has it
	Sync                      // a disk has what was synced, not what was written
	Apply                     // only entries that count are applied and shown
	Seal                      // a recoverer seals the log of the era before
	Promise                   // a disk that answered a recoverer takes no more entries of earlier eras
	Order                     // the highest position is that of the latest era, then that of the highest index
	Identity                  // an emptied disk is another disk
	Base                      // an era begins when a majority of its disks has the state with which it begins
	Place                     // a writer hands entries over when the chain has committed them and all before
)

var ruleNames = []string{"read-end", "commit", "sync", "apply", "seal", "promise", "order", "identity", "base", "place"}

// RuleNames lists the rules that can be switched off, in the order of their bits.
func RuleNames() []string { return ruleNames }

func (without Rule) on(r Rule) bool { return without&r == 0 }
