package drill

import "testing"

func TestFailuresInClustersOfAnySize(t *testing.T) {
	for _, o := range []Options{{3, 1, 2, 1}, {4, 16, 3, 4}, {5, 256, 3, 1}, {7, 64, 2, 7}, {50, 1024, 3, 5}} {
		r, err := Run(o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		if o.Shards > 1 && (r.ShardsChanged == 0 || r.OrdersSent == 0 || r.OrderBytes == 0) {
			t.Errorf("%+v: %+v", o, r)
		}
		if most := 1.3*r.FairFraction + 1/float64(o.Shards); r.MovedFraction > most {
			t.Errorf("%+v: %.4f of the cluster moves, more than %.4f", o, r.MovedFraction, most)
		}
	}
	for _, o := range []Options{{1, 1, 1, 1}, {4, 3, 3, 1}, {4, 4, 0, 1}, {3, 4, 3, 1}, {4, 4, 2, 5}, {4, 4, 1, 1}} {
		if _, err := Run(o); err == nil {
			t.Errorf("%+v is possible", o)
		}
	}
}

func BenchmarkFailure(b *testing.B) {
	for b.Loop() {
		r, err := Run(Options{Nodes: 1000, Shards: 65536, Replicas: 3, Zones: 10})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(r.PlanS, "plan-s")
	}
}
