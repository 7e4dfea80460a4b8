package bench

import "testing"

func TestLatency(t *testing.T) {
	needRoot(t)
	r, err := Latency(t.Context(), LatencyOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 1, ValueBytes: 16}, Nodes: 2, Count: 50,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadP50us <= 0 || r.ReadP99us < r.ReadP50us || r.WriteP50us <= 0 || r.EchoP50us <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestQuantile(t *testing.T) {
	sorted := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 || median(nil) != 0 {
		t.Error("median")
	}
}
