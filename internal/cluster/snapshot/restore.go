package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// tellEvery is how many objects lie between two reports of progress.
const tellEvery = 1000

// RestoreOptions say where to restore to. Client and Agents are needed.
type RestoreOptions struct {
	Client *client.Client
	Agents Agents
	DryRun bool // check everything, and change nothing
	// Raise lets the cluster give versions above a floor only, and returns when it does. nil: the cluster has no
	// controllers, and cannot.
	Raise    func(ctx context.Context, floor uint64) error
	Progress func(Progress)
}

// RestoreReport is the result of a restore, or of a dry run.
type RestoreReport struct {
	Header
	Totals
	LongestValue   int    `json:"longest_value"`
	HighestVersion uint64 `json:"highest_version"`
	// Floor is below all versions that the cluster gives from now on; 0: it is the cluster of the backup, or has no
	// controllers.
	Floor uint64 `json:"floor,omitempty"`
	// Anew: versions may be lower than before the restore.
	Anew     bool          `json:"versions_anew,omitempty"`
	DryRun   bool          `json:"dry_run"`
	Restored uint64        `json:"restored"` // objects
	Took     time.Duration `json:"-"`
}

// CheckSource reports why a file cannot be restored, as far as its header says.
func CheckSource(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := newReader(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Restore writes the values of a snapshot to the cluster, and replaces those of existing keys. Keys that are not in the
// snapshot stay. It first verifies the whole file and checks that every node has room. If it fails after that, some objects
// are restored, and it can be repeated.
func Restore(ctx context.Context, path string, o RestoreOptions) (*RestoreReport, error) {
	began := time.Now()
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	needs := newNeeds(&o)
	report := &RestoreReport{DryRun: o.DryRun}
	if report.Header, report.Totals, err = Verify(contextReader{ctx, file}, needs.add); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	report.LongestValue, report.HighestVersion = needs.longest, needs.highest
	if err := needs.check(ctx, file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// In the cluster that was backed up, versions have gone on.
	if from := report.Cluster; from == "" || from != needs.cluster.Cluster {
		if report.Anew = o.Raise == nil; !report.Anew {
			report.Floor = reconfig.RestoredFloor(needs.highest, began)
		}
	}
	if !o.DryRun {
		if report.Floor > 0 {
			if err := o.Raise(ctx, report.Floor); err != nil {
				return nil, fmt.Errorf("%s: nothing is restored: versions cannot be kept above those of the backup "+
					"(--versions-anew does without): %w", path, err)
			}
		}
		r := &restore{options: &o, total: report.Objects}
		if err := r.run(ctx, file, report.Totals); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		report.Restored = report.Objects
	}
	report.Took = time.Since(began)
	return report, nil
}

// contextReader stops reading when a context ends.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// restore writes objects, many at a time.
type restore struct {
	options *RestoreOptions
	total   uint64
	open    sync.WaitGroup

	mu     sync.Mutex
	done   uint64
	failed error // the first
}

func (r *restore) run(ctx context.Context, file *os.File, verified Totals) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, totals, err := Verify(contextReader{ctx, file}, func(o *Object) error { return r.put(ctx, o) })
	r.open.Wait()
	switch {
	case r.failed != nil:
		return fmt.Errorf("after %d of %d objects: %w", r.done, r.total, r.failed)
	case err != nil:
		return fmt.Errorf("after %d of %d objects: %w", r.done, r.total, err)
	case totals != verified:
		return errors.New("the file was changed while it was restored: restore it again")
	}
	return nil
}

// put begins to write an object. It returns an error that an earlier one met.
func (r *restore) put(ctx context.Context, o *Object) error {
	r.mu.Lock()
	err := r.failed
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.open.Add(1)
	r.options.Client.Start(ctx, client.PutHashedOp(o.Key, bytes.Clone(o.Value)), func(_ client.Result, err error) {
		defer r.open.Done()
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			if r.failed == nil {
				r.failed = err
			}
			return
		}
		if r.done++; r.options.Progress != nil && (r.done%tellEvery == 0 || r.done == r.total) {
			r.options.Progress(Progress{Stage: "restoring", Done: r.done, Total: r.total, Objects: r.done})
		}
	})
	return nil
}
