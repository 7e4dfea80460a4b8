package deployment

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page is a page of metrics, by name.
type page map[string]*dto.MetricFamily

func parsePage(r io.Reader) (page, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(r)
}

func readPage(ctx context.Context, client *http.Client, url string) (page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return parsePage(answer.Body)
}

// add adds another page's counters to those of this one.
func (p page) add(other page) {
	for name, family := range other {
		if p[name] == nil {
			p[name] = family
			continue
		}
		p[name].Metric = append(p[name].Metric, family.GetMetric()...)
	}
}

// label returns the value of a metric's label.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// counts returns the values of a counter, summed by a label; without a label all have the key "".
func (p page) counts(name, by string) map[string]float64 {
	sums := make(map[string]float64)
	for _, m := range p[name].GetMetric() {
		sums[label(m, by)] += m.GetCounter().GetValue()
	}
	return sums
}

// histogram counts values up to each bound.
type histogram map[float64]float64

// histogram sums the histograms of a name whose label is not among some values.
func (p page) histogram(name, by string, but ...string) histogram {
	h := make(histogram)
	for _, m := range p[name].GetMetric() {
		if slices.Contains(but, label(m, by)) {
			continue
		}
		for _, b := range m.GetHistogram().GetBucket() {
			h[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	return h
}

// since returns the values that were added since an earlier reading.
func (h histogram) since(before histogram) histogram {
	now := make(histogram)
	for bound, n := range h {
		now[bound] = n - before[bound]
	}
	return now
}

// quantile estimates a quantile: values are taken as spread evenly within a bucket. Those above the last finite bound
// have that bound. It returns 0 without values.
func (h histogram) quantile(q float64) float64 {
	bounds := slices.Sorted(maps.Keys(h))
	if len(bounds) == 0 || h[bounds[len(bounds)-1]] == 0 {
		return 0
	}
	want := q * h[bounds[len(bounds)-1]]
	low, below := 0.0, 0.0
	for i, bound := range bounds {
		if h[bound] < want {
			low, below = bound, h[bound]
			continue
		}
		if i == len(bounds)-1 { // infinite
			return low
		}
		return low + (bound-low)*(want-below)/(h[bound]-below)
	}
	return low
}

// mean returns the mean of the values that a histogram has counted since an earlier page, of the metrics for which of
// returns true. It is 0 if there are none.
func (p page) mean(before page, name string, of func(*dto.Metric) bool) float64 {
	total := func(p page) (sum, n float64) {
		for _, m := range p[name].GetMetric() {
			if of(m) {
				sum, n = sum+m.GetHistogram().GetSampleSum(), n+float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum, n
	}
	sum, n := total(p)
	sumBefore, nBefore := total(before)
	if n == nBefore {
		return 0
	}
	return (sum - sumBefore) / (n - nBefore)
}

// difference returns how much each count grew.
func difference(now, before map[string]float64) map[string]float64 {
	grown := make(map[string]float64)
	for key, n := range now {
		if d := n - before[key]; d != 0 {
			grown[key] = d
		}
	}
	return grown
}
