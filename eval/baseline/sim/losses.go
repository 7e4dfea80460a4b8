package sim

import "context"

// Loss says how often a protocol shows a kind of violation.
type Loss struct {
	Protocol Protocol
	Kind     Kind
	Seeds    uint64          // that were run
	Shown    int             // of them, in how many it was seen
	Ours     int             // in how many of them this project's protocol showed any violation
	Example  *Counterexample // nil: none was seen
}

// Losses runs seeds of NetChain, with 16 and 32 bits, and of NetCRAQ as published, and of this
// project's protocol beside each, and returns a row for each protocol and kind.
func Losses(ctx context.Context, first, seeds uint64, jobs int) ([]Loss, error) {
	var rows []Loss
	runner := NewRunner()
	for _, p := range []Protocol{NetChain, NetChain32, NetCRAQPaper} {
		total, err := runner.Many(ctx, Options{Protocol: p, First: first, Seeds: seeds, Jobs: jobs})
		if err == nil {
			err = ctx.Err() // some seeds are missing
		}
		if err != nil {
			return rows, err
		}
		examples, err := runner.Counterexamples(ctx, total)
		if err != nil {
			return rows, err
		}
		for _, kind := range Kinds() {
			row := Loss{
				Protocol: p,
				Kind:     kind,
				Seeds:    total.Seeds,
				Shown:    len(total.Kinds[kind]),
				Ours:     len(total.Ours),
			}
			for _, e := range examples {
				if e.Kind == kind {
					row.Example = e
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
