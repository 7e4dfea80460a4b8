package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// ErrUnsupported is wrapped by the errors with which a target declines a case: options or frames that cannot reach it.
var ErrUnsupported = errors.New("the target cannot do this")

// Failure is a case whose results were not those expected.
type Failure struct {
	Case, Packet string
	Why          string
}

// Report counts cases.
type Report struct {
	Passed, Failed, Skipped int
	Failures                []Failure
	SkippedWhy              []string
	// Adapted is how many cases have other results than those written: see [OfSwitch].
	Adapted int
}

// Reasons counts skipped cases by reason.
func (r *Report) Reasons() map[string]int {
	reasons := make(map[string]int)
	for _, why := range r.SkippedWhy {
		_, reason, _ := strings.Cut(why, ErrUnsupported.Error()+": ")
		reasons[reason]++
	}
	return reasons
}

// byOptions returns the cases in an order in which options change as seldom as possible: a target may have to be
// loaded anew for them, which takes seconds on a slow machine.
func byOptions(cases []Case) []*Case {
	first := make(map[chain.Options]int)
	var ordered []*Case
	for i := range cases {
		if _, seen := first[cases[i].Options]; !seen {
			first[cases[i].Options] = i
		}
		ordered = append(ordered, &cases[i])
	}
	slices.SortStableFunc(ordered, func(a, b *Case) int { return first[a.Options] - first[b.Options] })
	return ordered
}

// Run runs cases on a target. An error is the target's own, or the context's, not a failed case.
func Run(ctx context.Context, t Target, cases []Case) (*Report, error) {
	r := new(Report)
	for _, c := range byOptions(cases) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		failure, err := runCase(t, c)
		switch {
		case errors.Is(err, ErrUnsupported):
			r.Skipped++
			r.SkippedWhy = append(r.SkippedWhy, err.Error())
		case err != nil:
			return r, fmt.Errorf("%s: %w", t.Name(), err)
		case failure != nil:
			r.Failed++
			r.Failures = append(r.Failures, *failure)
		default:
			r.Passed++
		}
	}
	return r, nil
}

// FirstFailure runs cases on a target until one fails, and returns its failure, or nil if none fails. It leaves out the
// cases that the target declines.
func FirstFailure(ctx context.Context, t Target, cases []Case) (*Failure, error) {
	for _, c := range byOptions(cases) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		failure, err := runCase(t, c)
		if errors.Is(err, ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name(), err)
		}
		if failure != nil {
			return failure, nil
		}
	}
	return nil, nil
}

// runCase returns the failure of a case, or nil if it passes.
func runCase(t Target, c *Case) (*Failure, error) {
	got, err := run(t, c)
	var mismatch *mismatchError
	if errors.As(err, &mismatch) {
		return &Failure{Case: c.Name, Packet: mismatch.packet, Why: mismatch.Error()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	if f, ok := compare(c, got); !ok {
		return &f, nil
	}
	return nil, nil
}

// mismatchError is a frame that no node may send.
type mismatchError struct {
	packet string
	err    error
}

func (e *mismatchError) Error() string { return e.err.Error() }

// run returns the lines of results of each packet.
func run(t Target, c *Case) ([][]string, error) {
	if err := t.Reset(c.Options); err != nil {
		return nil, err
	}
	if err := t.Load(c.State); err != nil {
		return nil, err
	}
	before, err := t.State()
	if err != nil {
		return nil, err
	}
	var results [][]string
	for _, step := range c.Steps {
		verdict, frames, err := t.Step(bytes.Clone(step.Frame))
		if err != nil {
			return nil, err
		}
		after, err := t.State()
		if err != nil {
			return nil, err
		}
		lines, err := c.describe(step.Frame, verdict, frames, before, after)
		if err != nil {
			return nil, &mismatchError{step.Line, err}
		}
		results = append(results, lines)
		before = after
	}
	return results, nil
}

func (c *Case) describe(in []byte, verdict Verdict, frames [][]byte, before, after State) ([]string, error) {
	counts, rest := c.changes(before, after)
	lines := []string{strings.Join(append([]string{verdict.String()}, counts...), ", ")}
	if verdict == Pass {
		if len(frames) != 1 || !bytes.Equal(frames[0], in) {
			return nil, errors.New("the frame did not pass untouched")
		}
		return append(lines, rest...), nil
	}
	var sent []string
	for _, f := range frames {
		s, err := c.sent(in, f)
		if err != nil {
			return nil, err
		}
		sent = append(sent, s)
	}
	sort.Strings(sent)
	return append(append(lines, sent...), rest...), nil
}

func compare(c *Case, got [][]string) (Failure, bool) {
	for i, step := range c.Steps {
		for j := range max(len(step.Want), len(got[i])) {
			want, is := at(step.Want, j), at(got[i], j)
			if want != is {
				return Failure{c.Name, step.Line, fmt.Sprintf("want %s\n got %s", want, is)}, false
			}
		}
	}
	return Failure{}, true
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing more"
}

// Describe shows a frame to people.
func Describe(b []byte) string {
	var p frame.Packet
	outcome, ours := frame.Judge(b, Me, &p)
	if !ours || outcome != wire.Accepted {
		return fmt.Sprintf("frame of %d bytes %x", len(b), b[:min(len(b), frame.HeaderBytes)])
	}
	return hostName(p.From) + " " + describeDatagram(p.Message)
}
