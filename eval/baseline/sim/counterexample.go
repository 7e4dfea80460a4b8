package sim

import (
	"bytes"
	"fmt"
	"io"
)

// Counterexample is a short run that shows a kind of violation, and how this project's protocol fares.
type Counterexample struct {
	Kind      Kind
	Protocol  Protocol
	Seed      uint64
	Violation Violation
	Config    Config // the short run
	Ops       int    // of the seed's run
	Faults    int
	Trace     []Line
	// The violations of this project's protocol in the whole run of the seed, and with the operations
	// and faults of the short one; nil: none.
	OursWhole, OursShort *Violation
}

// Counterexample makes the short run of a seed that shows a kind of violation; nil: it does not show it.
func (r *Runner) Counterexample(c Config, kind Kind) (*Counterexample, error) {
	whole, verdict, err := r.judged(c)
	if err != nil {
		return nil, err
	}
	if _, shows := verdict.Has(kind); !shows {
		return nil, nil
	}
	e := &Counterexample{Kind: kind, Protocol: c.Protocol, Seed: c.Seed, Ops: len(c.Ops), Faults: len(whole.Faults)}
	if e.OursWhole, err = r.ours(c); err != nil {
		return nil, err
	}
	if e.Config, err = r.Shrink(c, kind); err != nil {
		return nil, err
	}
	if e.OursShort, err = r.ours(e.Config); err != nil {
		return nil, err
	}
	result, err := r.Trace(e.Config)
	if err != nil {
		return nil, err
	}
	if verdict, err = r.Judge(e.Config, result); err != nil {
		return nil, err
	}
	e.Violation, _ = verdict.Has(kind)
	e.Trace = result.Trace[:e.Violation.lines]
	return e, nil
}

// judged runs a configuration and judges it.
func (r *Runner) judged(c Config) (*Result, *Verdict, error) {
	result, err := r.Run(c)
	if err != nil {
		return nil, nil, err
	}
	verdict, err := r.Judge(c, result)
	return result, verdict, err
}

// ours returns the violation of this project's protocol in the same run; nil: none.
func (r *Runner) ours(c Config) (*Violation, error) {
	c.Protocol = Ours
	_, verdict, err := r.judged(c)
	if err != nil || len(verdict.Violations) == 0 {
		return nil, err
	}
	return &verdict.Violations[0], nil
}

// Ours says how this project's protocol fares, in the whole run of the seed and with the operations
// and faults of the short one.
func (e *Counterexample) Ours() string {
	for _, v := range []*Violation{e.OursWhole, e.OursShort} {
		if v != nil {
			return passes(v)
		}
	}
	return passes(nil)
}

// Name is a name for a file.
func (e *Counterexample) Name() string {
	return fmt.Sprintf("%s-%s-seed-%d.txt", e.Protocol, e.Kind, e.Seed)
}

// Command runs the seed again.
func (e *Counterexample) Command() string {
	return fmt.Sprintf("netcraq sim --protocol %s --first-seed %d --seeds 1 --trace", e.Protocol, e.Seed)
}

// String is the counterexample for people.
func (e *Counterexample) String() string {
	var text bytes.Buffer
	_ = e.Write(&text) // a buffer takes everything
	return text.String()
}

// Write explains the counterexample.
func (e *Counterexample) Write(out io.Writer) error {
	var b bytes.Buffer
	c := &e.Config
	fmt.Fprintf(&b, "%s: %s (seed %d)\n%s\n\n", e.Protocol, e.Kind.Title(), e.Seed, e.Violation.Why)
	fmt.Fprintf(&b,
		"Chain of %d: n1 is the head, n%d the tail. Left of the seed's %d operations: %d; of its %d faults: %d.\n",
		c.Nodes, c.Nodes, e.Ops, len(c.Ops), e.Faults, len(c.Faults))
	if c.Before > 0 {
		fmt.Fprintf(&b, "Before this, k0 was written %d times, without faults.\n", c.Before)
	}
	b.WriteByte('\n')
	if err := WriteTrace(&b, e.Trace); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nThis project's protocol, same seed: %s. With these operations and faults: %s.\nAgain: %s\n",
		passes(e.OursWhole), passes(e.OursShort), e.Command())
	_, err := out.Write(b.Bytes())
	return err
}

func passes(v *Violation) string {
	if v == nil {
		return "nothing is wrong"
	}
	return "VIOLATION, " + v.Why
}
