// Package finding has what a check of a machine, a cluster or an etcd finds: its state, and what to do about it.
package finding

// State says how much a finding matters.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning" // it works, slower or not for long
	Broken  State = "broken"  // it does not work
	Unknown State = "unknown" // it was not found out
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"`           // its name, of one word or a few
	About  string `json:"about,omitempty"` // the interface, node, file or address
	State  State  `json:"state"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// Of returns the finding of a check that fails with an error, which names the remedy, or that succeeds with a text.
func Of(check, about string, bad State, err error, good string) Finding {
	if err != nil {
		return Finding{Check: check, About: about, State: bad, Text: err.Error()}
	}
	return Finding{Check: check, About: about, State: OK, Text: good}
}

// Count counts the findings in a state.
func Count(list []Finding, state State) (n int) {
	for i := range list {
		if list[i].State == state {
			n++
		}
	}
	return n
}
