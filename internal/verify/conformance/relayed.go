package conformance

import "fmt"

// Relayed returns the cases for a plane whose tails cannot clone packets: where a tail would send ACKs of their own,
// they travel up the chain instead (W7). A switch computes no digests (W2) and makes session entries early (W14). The
// results that follow from that are the reference's; changed counts such cases.
func Relayed(cases []Case, isSwitch bool) (relayed []Case, changed int, err error) {
	for _, c := range cases {
		c.Options.Relay, c.Options.NoDigest, c.Options.EarlySessions = true, isSwitch, isSwitch
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
		relayed = append(relayed, c)
	}
	return relayed, changed, nil
}
