package deployment

import (
	"maps"
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

const before = `# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="OK",grpc_method="Range"} 5
grpc_server_handled_total{grpc_code="OK",grpc_method="Txn"} 7
# TYPE took_seconds histogram
took_seconds_bucket{verb="GET",le="0.1"} 10
took_seconds_bucket{verb="GET",le="0.2"} 10
took_seconds_bucket{verb="GET",le="+Inf"} 10
took_seconds_sum{verb="GET"} 1
took_seconds_count{verb="GET"} 10
`

const after = `# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="OK",grpc_method="Range"} 9
grpc_server_handled_total{grpc_code="Unavailable",grpc_method="Range"} 2
grpc_server_handled_total{grpc_code="OK",grpc_method="Txn"} 7
# TYPE took_seconds histogram
took_seconds_bucket{verb="GET",le="0.1"} 60
took_seconds_bucket{verb="GET",le="0.2"} 110
took_seconds_bucket{verb="GET",le="+Inf"} 110
took_seconds_sum{verb="GET"} 21
took_seconds_count{verb="GET"} 110
took_seconds_bucket{verb="WATCH",le="0.1"} 0
took_seconds_bucket{verb="WATCH",le="0.2"} 0
took_seconds_bucket{verb="WATCH",le="+Inf"} 500
took_seconds_sum{verb="WATCH"} 1
took_seconds_count{verb="WATCH"} 500
`

// TestReadingsAreCompared compares two pages of metrics. Of the 100 new values of GET, half are up to 0.1 s, and half up
// to 0.2 s.
func TestReadingsAreCompared(t *testing.T) {
	var pages [2]page
	for i, text := range []string{before, after} {
		var err error
		if pages[i], err = parsePage(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	const requests = "grpc_server_handled_total"
	grown := difference(pages[1].counts(requests, "grpc_method"), pages[0].counts(requests, "grpc_method"))
	if want := map[string]float64{"Range": 6}; !maps.Equal(grown, want) {
		t.Errorf("requests %v, want %v", grown, want)
	}
	h := pages[1].histogram("took_seconds", "verb", "WATCH").since(pages[0].histogram("took_seconds", "verb", "WATCH"))
	for q, want := range map[float64]float64{0.25: 0.05, 0.5: 0.1, 0.99: 0.198} {
		if got := h.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %g: %g, want %g", q, got, want)
		}
	}
	gets := func(m *dto.Metric) bool { return label(m, "verb") == "GET" }
	if got := pages[1].mean(pages[0], "took_seconds", gets); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("the mean of 100 new values, together 20 s, is %g", got)
	}
	if got := pages[1].mean(pages[1], "took_seconds", gets); got != 0 {
		t.Errorf("the mean of nothing is %g", got)
	}
	if got := make(histogram).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing: %g", got)
	}
}
