package conformance

import "fmt"

// OfSwitch returns the cases for a switch, which computes no digests (W2) and makes session entries early (W14). With
// relay, its tails send their ACKs up the chain (W7). The results that follow from that are the reference's; changed
// counts the cases whose results differ from the written ones.
func OfSwitch(cases []Case, relay bool) (of []Case, changed int, err error) {
	for _, c := range cases {
		c.Options.Relay, c.Options.NoDigest, c.Options.EarlySessions = c.Options.Relay || relay, true, true
		results, err := run(NewReference(), &c)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", c.Name, err)
		}
		if _, same := compare(&c, results); !same {
			changed++
		}
		steps := make([]Step, len(c.Steps))
		for i, step := range c.Steps {
			step.Want = results[i]
			steps[i] = step
		}
		c.Steps = steps
		of = append(of, c)
	}
	return of, changed, nil
}
