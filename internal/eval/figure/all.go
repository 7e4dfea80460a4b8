package figure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// BatchResult reports the outcome of several figures.
type BatchResult struct {
	Made    []string      `json:"made"`   // completely
	Unable  []string      `json:"unable"` // with the reason
	Failed  []string      `json:"failed"` // with the reason
	Kept    []string      `json:"kept"`   // made by the run that this one goes on with
	Elapsed time.Duration `json:"-"`
}

// RunAll makes figures one after the other. It continues an interrupted run of the same kind: it
// keeps the figures that the run had made, and repeats cells that failed or were not possible. A
// figure that fails does not stop the others. The error is that of an interruption or of a disk.
func RunAll(ctx context.Context, specs []*Spec, o Options) (*BatchResult, error) {
	began, result := time.Now(), new(BatchResult)
	defer func() { result.Elapsed = time.Since(began) }()
	resumed, err := startBatch(specs, o)
	if err != nil {
		return result, err
	}
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
		if _, err := Publish(o.Dir, specs); err != nil {
			return result, err
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		result.count(s, failed, runErr)
	}
	return result, os.Rename(batchPath(o.Dir), completePath(o.Dir))
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

// batchPath is a file that is there until all figures of a run are made. It holds the header of the run.
func batchPath(dir string) string { return filepath.Join(dir, "raw", "unfinished.json") }

// completePath is the same file from then on.
func completePath(dir string) string { return filepath.Join(dir, "raw", "complete.json") }

// startBatch reports whether an interrupted run continues. Otherwise it moves earlier results
// aside and reports the reason.
func startBatch(specs []*Spec, o Options) (resumed bool, err error) {
	built, err := binary()
	if err != nil {
		return false, err
	}
	moved, err := finishMove(o.Dir)
	if err != nil {
		return false, err
	}
	now := Header{Quick: o.Quick, Binary: built, Host: thisHost(), Began: time.Now().UTC()}
	why, err := whyAnew(&now, o)
	if why == "" || err != nil {
		return err == nil, err
	}
	to, err := setAside(o.Dir, specs)
	if err != nil {
		return false, err
	}
	to = cmp.Or(to, moved)
	if to != "" && o.Say != nil {
		o.Say(fmt.Sprintf("begins anew: %s; what was there is in %s now", why, to))
	}
	return false, writeWhole(batchPath(o.Dir), func(w io.Writer) error { return json.NewEncoder(w).Encode(now) })
}

// whyAnew returns the reason why a run can't continue from the earlier results; "": it can.
func whyAnew(now *Header, o Options) (string, error) {
	text, err := os.ReadFile(batchPath(o.Dir))
	var before Header
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no run of all figures was interrupted", nil
	case err != nil:
		return "", err
	case o.Again:
		return "as asked", nil
	case json.Unmarshal(text, &before) != nil:
		return "nobody knows what was interrupted, since " + batchPath(o.Dir) + " is damaged", nil
	}
	if ok, why := now.continues(&before); !ok {
		return "it can't go on with the run that was interrupted: " + why, nil
	}
	return "", nil
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
