package papers

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/etcdstudy"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// pipelineSizes are the clusters that are looked into.
var pipelineSizes = []int{1, 3}

// storeAlone is the throughput of etcd's store without the stages before it.
const storeAlone = "store_alone_per_s"

// putsPerS is the throughput of a cluster.
const putsPerS = "puts_per_s"

func etcdPipeline() *figure.Spec {
	var stages []string
	for _, s := range etcdstudy.Stages {
		stages = append(stages, string(s))
	}
	return &figure.Spec{
		Name: "etcd-pipeline", Title: "etcd: where the time of a put goes",
		Source: figure.Source{
			Paper: "Study of etcd's scalability, section 4 (pipeline analysis)",
			Reports: "Puts that go to the MVCC store directly are notably faster than those through the whole " +
				"server, " +
				"from which the study concludes that Raft costs most. It gives no figures.",
		},
		X: figure.Axis{Label: "cluster", Names: []string{"1 member", "3 members"}},
		Panels: []figure.Panel{
			{
				Title:  "CPU time of all members for a put",
				Metric: "cpu_us",
				Stack:  true,
				Only:   stages,
				Label:  "µs of CPU",
				Unit:   "µs",
			},
			{Title: "puts", Metric: putsPerS, Bars: true, Label: "puts/s", Unit: "puts/s"},
		},
		Series: []figure.Series{{Name: "etcd", Role: plot.Peer}},
		Needs:  figure.Needs{Root: true, CPUs: 2},
		Quick:  figure.Plan{Xs: figure.Counting(2), Rounds: 1, Window: 2 * time.Second, Budget: 20 * time.Second},
		Full:   figure.Plan{Xs: figure.Counting(2), Rounds: 5, Window: 5 * time.Second, Budget: 130 * time.Second},
		Open:   openEtcdPipeline, Results: etcdPipelineResults, Notes: etcdPipelineNotes,
	}
}

func openEtcdPipeline(context.Context, figure.Env) (figure.Harness, error) {
	r := &harness{close: func() {}}
	r.measure = func(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
		found, err := etcdstudy.Pipeline(
			ctx,
			etcdstudy.PipelineOptions{
				Load:  etcdstudy.Load{Duration: window, Seed: 1},
				Sizes: pipelineSizes[int(cell.X):][:1],
			},
		)
		if err != nil {
			return figure.Sample{}, etcdError(err)
		}
		r.note(found.Settings)
		c := found.Clusters[0]
		v := map[string]float64{
			putsPerS:      c.PerSecond,
			storeAlone:    found.Store,
			"p50_ms":      c.P50,
			"p99_ms":      c.P99,
			"errors":      float64(c.Errors),
			"client_cpus": c.ClientCPUs,
		}
		for _, s := range c.Stages {
			v[string(s.Stage)] = s.Micros
		}
		for _, t := range c.Timers {
			v[t.Name+", mean_ms"], v[t.Name+", times per put"] = t.MeanMs, t.PerPut
		}
		return values(v), nil
	}
	return r, nil
}

// costliest is the stage of etcd's own that takes most of the CPU, and its part of all.
func costliest(o *figure.Outcome, x float64) (stage etcdstudy.Stage, part float64) {
	most, sum := 0.0, 0.0
	for _, s := range etcdstudy.Stages {
		cost := o.Median("etcd", x, string(s))
		if cost == nil {
			continue
		}
		sum += *cost
		if *cost > most && s != etcdstudy.StageRuntime {
			stage, most = s, *cost
		}
	}
	return stage, most / max(sum, 1e-9)
}

func etcdPipelineResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, x := range o.Xs {
		place := o.Spec.X.Place(x)
		all = append(all, figure.Result{
			Metric: "puts, " + place,
			Unit:   "puts/s",
			Values: figure.Values{figure.Peer: o.Median("etcd", x, putsPerS)},
		})
		for _, s := range etcdstudy.Stages {
			all = append(all, figure.Result{
				Metric: fmt.Sprintf("CPU for a put, %s, %s", s, place),
				Unit:   "µs",
				Values: figure.Values{figure.Peer: o.Median("etcd", x, string(s))},
			})
		}
	}
	return append(all,
		figure.Result{
			Metric: "puts of the store alone",
			Unit:   "puts/s",
			Values: figure.Values{figure.Peer: o.Median("etcd", o.Xs[0], storeAlone)},
		})
}

func etcdPipelineNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		place := o.Spec.X.Place(x)
		if ratio := figure.Ratio(o.Median("etcd", x, storeAlone), o.Median("etcd", x, putsPerS)); ratio != nil {
			notes = append(
				notes,
				say(verdict(*ratio > 1), "pipeline-store-alone", facts{"Place": place, "Times": *ratio}),
			)
		}
		stage, part := costliest(o, x)
		notes = append(notes, say(verdict(stage == etcdstudy.StageRaft), "pipeline-costliest", facts{
			"Place":   place,
			"Stage":   stage,
			"Percent": 100 * part,
		}))
		if stage != etcdstudy.StageRaft {
			notes = append(notes, say(
				figure.Remark,
				"why-pipeline", facts{"Place": place}))
		}
	}
	return append(notes, say(figure.Remark, "pipeline-limits", nil))
}
