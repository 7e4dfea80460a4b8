package failover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/control"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Result is the cost of a node's failure. Figures that internal/verify/chaos measures too have the
// same names.
type Result struct {
	Protocol  string  `json:"protocol"`
	Groups    int     `json:"groups"`
	Victim    string  `json:"victim"`
	Objects   int     `json:"objects"`
	PerSecond float64 `json:"copied_per_s"`
	Writers   int     `json:"writers"`
	Readers   int     `json:"readers"`
	PauseMs   float64 `json:"pause_ms"` // of a client between two operations: part of every gap
	Seed      uint64  `json:"seed"`

	// longest gap of one client between acknowledged writes, until failover
	WriteGapMs    float64 `json:"write_gap_ms"`
	ReadGapMs     float64 `json:"read_gap_ms"`           // the same of reads, until the end
	RepairPauseMs float64 `json:"repair_write_pause_ms"` // longest pause of writes of one client after that
	NoticedMs     float64 `json:"noticed_ms"`            // until queries were led around the failed node
	RecoveryAtS   float64 `json:"recovery_at_s"`         // when the recovery began, since the failure
	RepairS       float64 `json:"repair_s"`              // from the failure until the new node has taken over

	LostWrites int `json:"lost_writes"` // writers whose last acknowledged write is gone in the end

	WritesBefore float64 `json:"writes_before_per_s"`
	WritesDuring float64 `json:"writes_in_recovery_per_s"`
	ReadsBefore  float64 `json:"reads_before_per_s"`
	ReadsDuring  float64 `json:"reads_in_recovery_per_s"`

	Panel plot.Panel `json:"panel"` // rates over the time since the failure, s
}

// bin of the rates over time.
const bin = 50 * time.Millisecond

// times since the probes began.
type times struct{ failed, noticed, recovering, repaired, ended time.Duration }

// errFalseAlarm says that the controller suspected a node that was alive.
var errFalseAlarm = errors.New("a live node was silent for too long: the machine is too busy for beats")

// tries are how often a course of events that began with a false alarm is begun again.
const tries = 5

// Run cuts a node's power while clients work, lets the control plane replace it, and reports the
// clients' measurements.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r, err := o.run(ctx)
		if try == tries || !errors.Is(err, errFalseAlarm) {
			return r, err
		}
	}
}

func (o *Options) run(ctx context.Context) (*Result, error) {
	open := openChain
	if o.Protocol == NetCRAQPaper {
		open = openNetCRAQPaper
	}
	r, err := open(o)
	if err != nil {
		return nil, err
	}
	defer r.network().Close()
	ears, err := r.network().Listen()
	if err != nil {
		return nil, err
	}
	defer ears.Close()
	defer agents(r.network(), ears.LocalAddr().(*net.UDPAddr).AddrPort())()
	writers, readers, err := gather(r, o)
	if err != nil {
		return nil, err
	}
	p := start(ctx, slices.Concat(writers, readers), o.Pause, o.Seed)
	t, err := o.fail(ctx, r, ears, p)
	defer func() { _ = closeAll(p.all) }()
	if err := errors.Join(err, p.halt(), r.network().Err()); err != nil {
		return nil, err
	}
	found := o.result(t, writers, readers)
	found.LostWrites, err = lost(ctx, writers)
	return found, err
}

// fail is the course of events.
func (o *Options) fail(ctx context.Context, r harness, ears *net.UDPConn, p *probes) (t times, err error) {
	place := slices.Index(places, o.Victim)
	if !retry.Sleep(ctx, o.Quiet) {
		return t, ctx.Err()
	}
	silent := make(chan error, 1)
	listening, stop := context.WithTimeout(ctx, patience)
	defer stop()
	noticed := -1
	go func() {
		var err error
		noticed, err = control.Watch(listening, ears, chainNodes)
		silent <- err
	}()
	if !retry.Sleep(ctx, o.Quiet/2) { // the controller is listening
		return t, ctx.Err()
	}
	if len(silent) > 0 {
		return t, errors.Join(errFalseAlarm, <-silent)
	}
	t.failed = p.now()
	r.network().Power(fabric.NodeAddr(place), false)
	if err := <-silent; err != nil {
		return t, fmt.Errorf("wait for the failure to be noticed: %w", err)
	}
	if noticed != place {
		return t, errFalseAlarm
	}
	if err := r.failover(fabric.NodeAddr(place)); err != nil {
		return t, err
	}
	t.noticed = p.now()
	if !retry.Sleep(ctx, o.Quiet) {
		return t, ctx.Err()
	}
	t.recovering = p.now()
	if err := r.recover(ctx, fabric.NodeAddr(place), reserve()); err != nil {
		return t, err
	}
	t.repaired = p.now()
	if !retry.Sleep(ctx, o.Quiet) {
		return t, ctx.Err()
	}
	t.ended = p.now()
	return t, nil
}

func (o *Options) result(t times, writers, readers []*probe) *Result {
	r := &Result{
		Protocol: o.Protocol, Groups: o.Groups, Victim: o.Victim, Objects: o.Objects, PerSecond: o.PerSecond,
		Writers: o.Writers, Readers: o.Readers, PauseMs: milliseconds(o.Pause), Seed: o.Seed,
		WriteGapMs:    milliseconds(longestGap(writers, t.failed, t.noticed, t.ended)),
		ReadGapMs:     milliseconds(longestGap(readers, t.failed, t.ended, t.ended)),
		RepairPauseMs: milliseconds(longestGap(writers, t.recovering, t.ended, t.ended)),
		NoticedMs:     milliseconds(t.noticed - t.failed),
		RecoveryAtS:   (t.recovering - t.failed).Seconds(), RepairS: (t.repaired - t.failed).Seconds(),
		WritesBefore: perSecond(writers, t.failed-o.Quiet,
			t.failed), WritesDuring: perSecond(writers, t.recovering, t.repaired),
		ReadsBefore: perSecond(readers, t.failed-o.Quiet,
			t.failed), ReadsDuring: perSecond(readers, t.recovering, t.repaired),
	}
	r.Panel = plot.Panel{
		Title: o.title(),
		Lines: []plot.Line{
			{Name: "reads", Points: rates(readers, t.failed, bin, -o.Quiet, t.ended-t.failed)},
			{Name: "writes", Points: rates(writers, t.failed, bin, -o.Quiet, t.ended-t.failed)},
		},
		Spans: []plot.Span{{Name: "repair", From: r.RecoveryAtS, To: r.RepairS}, {Name: "failure"}},
	}
	return r
}

func (o *Options) title() string {
	if o.Protocol == NetCRAQPaper {
		return fmt.Sprintf("NetCRAQ as published, %s lost", o.Victim)
	}
	if o.Groups == 1 {
		return fmt.Sprintf("NetChain, 1 virtual group, %s lost", o.Victim)
	}
	return fmt.Sprintf("NetChain, %d virtual groups, %s lost", o.Groups, o.Victim)
}

func perSecond(all []*probe, from, until time.Duration) float64 {
	return float64(count(all, from, until)) / max(until-from, time.Millisecond).Seconds()
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
