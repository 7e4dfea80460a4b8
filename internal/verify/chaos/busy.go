package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// BusyOptions describe a trial on a machine that starves its processes of CPU time, without any
// other fault.
type BusyOptions struct {
	Setup
	For              time.Duration
	Seed             uint64   // of the pauses and of the clients' operations
	Stopped          float64  // share of the time during which every agent and controller is stopped
	Burners          int      // processes that use all the CPU time they get
	Burner           []string // command of a burner
	Writers, Readers int
	Objects          int // stored before the trial; clients write and read them
	// Progress, if set, receives the state of the trial a few times a second.
	Progress func(BusyProgress)
}

// BusyResult is the outcome of a trial on a busy machine.
type BusyResult struct {
	Suspected         int     `json:"suspected"`            // nodes removed from their chains
	LeastCopies       int     `json:"least_copies"`         // fewest complete copies of a shard in any durable state
	FailedWrites      int     `json:"failed_writes"`        // writes without a known outcome within the client's timeout
	LongestWriteGapMs float64 `json:"longest_write_gap_ms"` // longest time without a success of any one writer
	// from the end of the noise until all chains were whole, or the bound of the wait
	WholeAgainS      float64 `json:"whole_again_s"`
	Whole            bool    `json:"whole"`
	Writes           int     `json:"writes"`
	Reads            int     `json:"reads"`
	FailedReads      int     `json:"failed_reads"`
	LongestReadGapMs float64 `json:"longest_read_gap_ms"`
	Linearizable     bool    `json:"linearizable"`

	Pauses       int     `json:"pauses"`        // pauses of all processes
	StoppedShare float64 `json:"stopped_share"` // measured share
	// changes of the durable state that least_copies and suspected do not cover
	MissedChanges uint64 `json:"missed_changes"`

	Seconds     float64  `json:"seconds"`
	Stopped     float64  `json:"stopped"`
	Burners     int      `json:"burners"`
	Nodes       int      `json:"nodes"`
	Controllers int      `json:"controllers"`
	Shards      int      `json:"shards"`
	Replicas    int      `json:"replicas"`
	Objects     int      `json:"objects"`
	Writers     int      `json:"writers"`
	Readers     int      `json:"readers"`
	Seed        uint64   `json:"seed"`
	Crashes     []string `json:"crashes,omitempty"` // agents and controllers that ended unexpectedly

	verdict *history.Verdict
	lacking string // missing parts of a cluster that is not whole
}

// BusyProgress is the state of a running trial.
type BusyProgress struct {
	Elapsed       time.Duration
	Suspected     int
	LeastCopies   int
	Writes, Reads int
	Failed        int
	WriteGap      time.Duration
	State         string
}

const (
	busyPatience = time.Minute // wait for the cluster to be whole again
	burnLonger   = time.Minute // a burner whose parent hangs ends this long after the noise
)

// BurnFor returns the longest time a burner may run.
func (o *BusyOptions) BurnFor() time.Duration { return o.For + burnLonger }

// OK reports whether the cluster kept its guarantees. The figures report the cost.
func (r *BusyResult) OK() bool { return r.Linearizable && r.Whole && len(r.Crashes) == 0 }

// Explain lists the violations.
func (r *BusyResult) Explain() string {
	var text strings.Builder
	_ = r.verdict.Write(&text) // a builder never fails
	if len(r.Crashes) > 0 {
		fmt.Fprintf(&text, "these ended unexpectedly: %s\n", strings.Join(r.Crashes, ", "))
	}
	if !r.Whole {
		fmt.Fprintf(&text, "not whole %v after the end of the noise: %s\n", busyPatience, r.lacking)
	}
	return text.String()
}

// Busy brings a cluster up, loads the machine and stops processes while clients work, and waits
// until all chains are whole again. It removes the cluster in any case.
func Busy(ctx context.Context, o BusyOptions) (*BusyResult, error) {
	return trial(ctx, &o.Setup, func(c *cluster) (*BusyResult, error) {
		b := &busy{o: &o, c: c, began: time.Now(), stops: newStops(c.lab)}
		if err := b.run(ctx); err != nil {
			return nil, err
		}
		return b.result, nil
	})
}

// busy is one trial.
type busy struct {
	o       *BusyOptions
	c       *cluster
	began   time.Time
	stops   *stops
	durable *durable
	work    *work
	result  *BusyResult
}

func (b *busy) run(ctx context.Context) (err error) {
	if b.durable, err = b.c.observe(ctx, nil); err != nil {
		return err
	}
	defer func() { _ = b.durable.end() }()
	if b.work, err = b.c.newWork(ctx, b.o.Objects); err != nil {
		return err
	}
	defer b.work.close()
	working, stop := context.WithCancel(ctx)
	defer stop()
	b.work.start(working, b.o.Writers, b.o.Readers, b.o.Seed)
	go b.report(working)
	noise, err := b.noise(ctx)
	if err == nil {
		err = b.recover(ctx)
	}
	stop()
	b.work.done.Wait()
	if err != nil {
		return err
	}
	if err := b.durable.end(); err != nil {
		return err
	}
	b.judge(noise)
	return ctx.Err()
}

// noise loads the machine and stops processes for the configured time. It returns the actual time.
func (b *busy) noise(ctx context.Context) (lasted time.Duration, err error) {
	b.o.event("noise: %d busy loops, every agent and controller stopped %.0f %% of the time",
		b.o.Burners, 100*b.o.Stopped)
	burning, err := burn(b.o.Burners, b.o.Burner)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	noisy, cancel := context.WithTimeout(ctx, b.o.For)
	defer cancel()
	var hosts []string
	for _, h := range slices.Concat(b.c.lab.Plan.With(lab.RoleNode), b.c.lab.Plan.With(lab.RoleController)) {
		hosts = append(hosts, h.Name)
	}
	err = b.stops.pauses(noisy, hosts, b.o.Stopped, b.o.Seed)
	if err == nil {
		<-noisy.Done()
		err = ctx.Err()
	}
	if failed := burning.end(); err == nil {
		err = failed
	}
	return time.Since(begun), err
}

// recover waits until every shard accepts writes and has all its members.
func (b *busy) recover(ctx context.Context) error {
	begun := time.Now()
	b.result = new(BusyResult)
	b.o.event("the noise is over")
	b.result.Whole = b.c.becomesWhole(ctx, busyPatience)
	b.result.WholeAgainS = time.Since(begun).Seconds()
	if !b.result.Whole {
		b.result.lacking = b.c.describe(b.c.follower.Map())
	}
	return ctx.Err()
}

func (b *busy) judge(noise time.Duration) {
	r, o := b.result, b.o
	r.Suspected, r.LeastCopies, r.MissedChanges = b.durable.seen()
	writes, reads := b.work.counters(history.Put), b.work.counters(history.Get)
	r.Writes, r.FailedWrites, r.LongestWriteGapMs = writes.done, writes.failed, milliseconds(writes.longest)
	r.Reads, r.FailedReads, r.LongestReadGapMs = reads.done, reads.failed, milliseconds(reads.longest)
	stopped, pauses := b.stops.sum()
	r.Pauses, r.StoppedShare = pauses, stopped.Seconds()/noise.Seconds()/float64(o.Lab.Nodes+o.Lab.Controllers)
	r.Seconds, r.Stopped, r.Burners, r.Seed = noise.Seconds(), o.Stopped, o.Burners, o.Seed
	r.Nodes, r.Controllers, r.Shards, r.Replicas = o.Lab.Nodes, o.Lab.Controllers, o.Lab.Shards, o.Replicas
	r.Objects, r.Writers, r.Readers = o.Objects, o.Writers, o.Readers
	for _, h := range slices.Concat(b.c.lab.Plan.With(lab.RoleNode), b.c.lab.Plan.With(lab.RoleController)) {
		if !b.c.lab.AgentAlive(h.Name) {
			r.Crashes = append(r.Crashes, h.Name)
		}
	}
	b.o.event("checking %d operations", writes.done+writes.failed+reads.done+reads.failed)
	r.verdict = history.Check(b.work.history(), chaosPerKey)
	r.Linearizable = r.verdict.Linearizable()
}

// report reports the progress until ctx ends.
func (b *busy) report(ctx context.Context) {
	if b.o.Progress == nil {
		return
	}
	for retry.Sleep(ctx, progressEvery) {
		p := BusyProgress{Elapsed: time.Since(b.began)}
		p.Suspected, p.LeastCopies, _ = b.durable.seen()
		writes, reads := b.work.counters(history.Put), b.work.counters(history.Get)
		p.Writes, p.Reads, p.Failed, p.WriteGap = writes.done, reads.done, writes.failed+reads.failed, writes.longest
		if m := b.c.follower.Map(); !b.c.whole(m) {
			p.State = b.c.describe(m)
		}
		b.o.Progress(p)
	}
}
