package etcdstudy

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/google/pprof/profile"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// cpuProfiles profiles all members at once for a time, in whole seconds, and adds up CPU time by stage.
func cpuProfiles(ctx context.Context, endpoints []string, d time.Duration) (map[Stage]time.Duration, error) {
	profiles := make([]*profile.Profile, len(endpoints))
	var group errgroup.Group
	for i, endpoint := range endpoints {
		group.Go(func() error {
			url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", endpoint, profileSeconds(d))
			return etcd.Page(ctx, url, func(r io.Reader) (err error) { profiles[i], err = profile.Parse(r); return err })
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("profile of an etcd member: %w", err)
	}
	sum := make(map[Stage]time.Duration)
	for _, p := range profiles {
		for stage, used := range byStage(p) {
			sum[stage] += used
		}
	}
	return sum, nil
}

// profileSeconds is the length of a profile that fits into a measurement.
func profileSeconds(d time.Duration) int { return max(1, int(math.Floor(d.Seconds()))) }

// byStage adds up the samples of a CPU profile. Their second value is time in ns.
func byStage(p *profile.Profile) map[Stage]time.Duration {
	sum := make(map[Stage]time.Duration)
	for _, sample := range p.Sample {
		var stack []string
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil {
					stack = append(stack, line.Function.Name)
				}
			}
		}
		sum[stageOf(stack)] += time.Duration(sample.Value[len(sample.Value)-1])
	}
	return sum
}

// metrics are the members' metrics, summed: histograms as count and sum, counters as the sum of
// their values.
type metrics map[string]metric

type metric struct {
	count, sum float64
}

// scrape reads the metrics of all members.
func scrape(ctx context.Context, endpoints []string) (metrics, error) {
	all := make(metrics)
	for _, endpoint := range endpoints {
		families, err := etcd.Metrics(ctx, endpoint)
		if err != nil {
			return nil, err
		}
		for name, family := range families {
			all.add(name, family)
		}
	}
	return all, nil
}

// add adds all metrics of a family, for all labels.
func (m metrics) add(name string, family *dto.MetricFamily) {
	sum := m[name]
	for _, one := range family.Metric {
		switch {
		case one.Histogram != nil:
			sum.count += float64(one.Histogram.GetSampleCount())
			sum.sum += one.Histogram.GetSampleSum()
		case one.Counter != nil:
			sum.sum += one.Counter.GetValue()
		}
	}
	m[name] = sum
}

// since returns the change since an earlier reading.
func (m metrics) since(before metrics, name string) metric {
	return metric{m[name].count - before[name].count, m[name].sum - before[name].sum}
}
