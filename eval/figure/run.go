package figure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Options say how a figure is run.
type Options struct {
	Dir      string // folder of the run; for RunAll that of all runs
	Quick    bool
	Again    bool // don't go on with an interrupted run
	Progress func(Progress)
	Say      func(string)
}

// Progress is how far a run has come.
type Progress struct {
	Figure      string
	Done, Cells int // measurements, of all rounds
	Text        string
	Left        time.Duration // estimated time until the figure is done
}

// overdue is how many times its budget a figure may take before a round is left unfinished. The first round is finished
// in any case: without it there is no figure.
const overdue = 2

// cellPatience is the least time after which a cell counts as stuck. On a loaded machine the set-up of a chain alone takes
// a minute.
const cellPatience = 5 * time.Minute

// runner is one run of one figure.
type runner struct {
	Options
	spec    *Spec
	plan    Plan
	journal *Journal
	harness Harness
	began   time.Time
	unable  map[string]bool // series that can't be measured here
	failed  int
	before  int // measurements that an interrupted run had made
	done    int // in this run
}

// Run measures a figure, or its missing cells. It returns an error if no cell could be measured,
// or if it was interrupted. Cells that failed are in the journal, and counted.
func Run(ctx context.Context, spec *Spec, o Options) (failed int, err error) {
	if o.Again {
		return runFrom(ctx, spec, o, scratch)
	}
	return runFrom(ctx, spec, o, interrupted)
}

func runFrom(ctx context.Context, spec *Spec, o Options, begin from) (failed int, err error) {
	r := &runner{Options: o, spec: spec, plan: spec.plan(o.Quick), began: time.Now(), unable: make(map[string]bool)}
	header, err := newHeader(spec, o.Quick)
	if err != nil {
		return 0, err
	}
	unmet := spec.Needs.unmet()
	if unmet != "" {
		begin = scratch
	}
	said := ""
	if r.journal, said, err = open(o.Dir, header, begin); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if unmet != "" {
		return 0, r.refuse(unmet)
	}
	if said != "" {
		r.say(said)
	}
	err = r.measure(ctx)
	return r.failed, err
}

// unmet describes an unmet need, or is empty.
func (n Needs) unmet() string {
	switch {
	case n.Root && os.Geteuid() != 0:
		return "needs root, for network namespaces and XDP programs: run it with sudo"
	case runtime.NumCPU() < n.CPUs:
		return fmt.Sprintf(
			"needs %d CPUs, and this process may use %d: with fewer, those compared would take each other's time",
			n.CPUs, runtime.NumCPU())
	}
	return ""
}

// refuse writes down why a figure can't be made, so that the report can say it.
func (r *runner) refuse(why string) error {
	err := errors.Join(r.journal.add(Entry{Unable: &Failure{Why: why}}),
		r.journal.add(Entry{End: &End{At: time.Now(), Load: loadAverage()}}))
	if err != nil {
		return err
	}
	return &Unable{Why: why}
}

func (r *runner) close() error {
	stays, err := r.journal.close()
	if stays {
		r.say(r.spec.Name + ": nothing was measured, so what an earlier run measured stays as it is")
	}
	return err
}

// newHeader describes a run of a figure that begins now.
func newHeader(s *Spec, quick bool) (Header, error) {
	print, err := s.fingerprint(s.plan(quick))
	if err != nil {
		return Header{}, err
	}
	built, err := binary()
	return Header{
		Figure: s.Name,
		Quick:  quick,
		Spec:   print,
		Binary: built,
		Host:   thisHost(),
		Began:  time.Now().UTC(),
	}, err
}

func (r *runner) say(text string) {
	if r.Say != nil {
		r.Say(text)
	}
}

// measure opens the harness and measures round after round.
func (r *runner) measure(ctx context.Context) error {
	steal, all := stolen()
	dir, err := os.MkdirTemp("", "netcraq-figure-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.progress("setting up")
	r.harness, err = r.spec.Open(ctx,
		Env{Quick: r.Quick, Plan: r.plan, Dir: dir, Say: func(text string) { r.progress(text) }})
	if err != nil {
		return r.couldNotOpen(ctx, err)
	}
	defer r.harness.Close()
	timeUp, err := r.rounds(ctx)
	if err != nil {
		return err
	}
	end := &End{
		Settings: r.harness.Settings(),
		Load:     loadAverage(),
		Seconds:  time.Since(r.began).Seconds(),
		TimeUp:   timeUp,
		At:       time.Now().UTC(),
	}
	if s, a := stolen(); a > all {
		end.StealPct = 100 * (s - steal) / (a - all)
	}
	return errors.Join(r.journal.add(Entry{End: end}), r.nothing())
}

// nothing is the error of a run that has measured nothing at all, else nil.
func (r *runner) nothing() error {
	if r.before+r.done > 0 {
		return nil
	}
	var unable error
	for _, e := range r.journal.Entries {
		switch {
		case e.Failure != nil:
			return fmt.Errorf("nothing could be measured: %s", e.Failure.Why)
		case e.Unable != nil && unable == nil:
			unable = &Unable{Why: e.Unable.Why}
		}
	}
	return unable
}

// couldNotOpen ends a run without a harness.
func (r *runner) couldNotOpen(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	entry := Entry{Failure: &Failure{Why: err.Error()}}
	if unable := new(Unable); errors.As(err, &unable) {
		entry = Entry{Unable: &Failure{Why: unable.Why}}
	} else {
		r.failed++
	}
	return errors.Join(
		err,
		r.journal.add(entry),
		r.journal.add(
			Entry{End: &End{Load: loadAverage(), Seconds: time.Since(r.began).Seconds(), At: time.Now().UTC()}}),
	)
}

// rounds measures until all rounds are done, or another one would not fit into the budget.
func (r *runner) rounds(ctx context.Context) (timeUp bool, err error) {
	done, cells := r.journal.done(), r.spec.cells(r.plan)
	r.before = len(done)
	longest := time.Duration(0)
	for round := range r.plan.Rounds {
		began, measured := time.Now(), 0
		if harness, ok := r.harness.(Rounds); ok {
			harness.Round(round)
		}
		for _, cell := range order(cells, round) {
			if done[Failure{Cell: cell, Round: round}] || r.unable[cell.Series] {
				continue
			}
			elapsed := time.Since(r.began)
			if round > 0 && (measured == 0 && elapsed+longest > r.plan.Budget || elapsed > overdue*r.plan.Budget) {
				return true, nil
			}
			if err := r.cell(ctx, cell, round); err != nil {
				return false, err
			}
			measured++
		}
		longest = max(longest, time.Since(began))
	}
	return false, nil
}

// cell measures one cell and records the result. Its error ends the run.
func (r *runner) cell(ctx context.Context, cell Cell, round int) error {
	r.progress(fmt.Sprintf("round %d of %d: %s at %s", round+1, r.plan.Rounds, cell.Series, r.spec.X.Place(cell.X)))
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, max(cellPatience, r.plan.Window+overdue*r.plan.Budget))
	defer cancel()
	sample, err := r.harness.Measure(within, cell, r.plan.Window)
	unable := new(Unable)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unable):
		r.unable[cell.Series] = true
		r.say(cell.Series + ": " + unable.Why)
		return r.journal.add(Entry{Unable: &Failure{Cell: cell, Round: round, Why: unable.Why}})
	case err != nil:
		r.failed++
		r.say(fmt.Sprintf("%s at %s: %v", cell.Series, r.spec.X.Place(cell.X), err))
		return r.journal.add(Entry{Failure: &Failure{Cell: cell, Round: round, Why: err.Error()}})
	}
	r.done++
	return r.journal.add(
		Entry{
			Sample: &Measured{
				Cell:    cell,
				Round:   round,
				Seconds: time.Since(began).Seconds(),
				At:      time.Now().UTC(),
				Sample:  sample,
			},
		},
	)
}

// progress reports the progress of the run. The time left is that of the budget, or less if the
// pace so far allows it.
func (r *runner) progress(text string) {
	if r.Progress == nil {
		return
	}
	cells, elapsed := len(r.spec.cells(r.plan))*r.plan.Rounds, time.Since(r.began)
	left := r.plan.Budget - elapsed
	if r.done > 0 {
		left = min(left, elapsed/time.Duration(r.done)*time.Duration(cells-r.before-r.done))
	}
	r.Progress(Progress{Figure: r.spec.Name, Done: r.before + r.done, Cells: cells, Text: text, Left: max(left, 0)})
}
