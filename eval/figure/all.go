package figure

import (
	"context"
	"errors"
	"os"
	"time"
)

// BatchResult reports the outcome of several figures.
type BatchResult struct {
	Made    []string      `json:"made"`   // completely
	Unable  []string      `json:"unable"` // with the reason
	Failed  []string      `json:"failed"` // with the reason
	Kept    []string      `json:"kept"`   // made by the run that this one goes on with
	Folder  string        `json:"-"`      // of the run
	Elapsed time.Duration `json:"-"`
}

// RunAll makes figures one after the other, in a folder of its own below that of the options. It
// continues the last run if that was interrupted and is of the same kind: it keeps the figures that the
// run had made, and repeats cells that failed or were not possible. A figure that fails does not stop
// the others. The error is that of an interruption or of a disk.
func RunAll(ctx context.Context, specs []*Spec, o Options) (*BatchResult, error) {
	began, result := time.Now(), new(BatchResult)
	defer func() { result.Elapsed = time.Since(began) }()
	root := o.Dir
	folder, resumed, err := startRun(o)
	if err != nil {
		return result, err
	}
	o.Dir, result.Folder = folder, folder
	begin, after := scratch, time.Duration(0)
	if resumed {
		begin = incomplete
	}
	for _, s := range specs {
		after += s.plan(o.Quick).Budget
	}
	progress := o.Progress
	for _, s := range specs {
		after -= s.plan(o.Quick).Budget
		if resumed && made(s, o) {
			result.Kept = append(result.Kept, s.Name)
			continue
		}
		each := o
		if progress != nil {
			each.Progress = func(p Progress) {
				p.Left += after
				progress(p)
			}
		}
		failed, runErr := runFrom(ctx, s, each, begin)
		if _, err := PublishLatest(root, specs); err != nil {
			return result, err
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		result.count(s, failed, runErr)
	}
	return result, os.Remove(unfinishedPath(o.Dir))
}

func (t *BatchResult) count(s *Spec, failed int, err error) {
	unable := new(Unable)
	switch {
	case errors.As(err, &unable):
		t.Unable = append(t.Unable, s.Name+": "+unable.Why)
	case err != nil:
		t.Failed = append(t.Failed, s.Name+": "+err.Error())
	case failed > 0:
		t.Failed = append(t.Failed, s.Name+": parts of it, see the report")
	default:
		t.Made = append(t.Made, s.Name)
	}
}

// made reports whether a figure's journal is complete, and of a run like this one.
func made(s *Spec, o Options) bool {
	j, err := Read(o.Dir, s.Name)
	if err != nil || !j.complete() {
		return false
	}
	now, err := newHeader(s, o.Quick)
	if err != nil {
		return false
	}
	ok, _ := now.continues(&j.Header)
	return ok
}
