package statistics

import (
	"math"
	"testing"
)

func TestQuantile(t *testing.T) {
	sorted := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := Quantile(q, sorted); got != want {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	if Quantile(0.5, nil) != 0 {
		t.Error("quantile of nothing")
	}
	if Median([]float64{3, 1, 2}) != 2 || Median([]float64{4, 1, 2, 3}) != 2.5 || Median(nil) != 0 {
		t.Error("median")
	}
}

func TestZipf(t *testing.T) {
	parts := ZipfParts(3, 1)
	for i, want := range []float64{6.0 / 11, 3.0 / 11, 2.0 / 11} {
		if math.Abs(parts[i]-want) > 1e-12 {
			t.Errorf("parts %v", parts)
		}
	}
	if even := ZipfParts(4, 0); even[0] != 0.25 || even[3] != 0.25 {
		t.Errorf("parts with exponent 0: %v", even)
	}
	z := NewZipf(3, 1)
	for u, want := range map[float64]int{0: 0, 0.54: 0, 0.55: 1, 0.81: 1, 0.82: 2, 0.9999999: 2, 1: 2} {
		if got := z.Draw(u); got != want {
			t.Errorf("%v draws %d, not %d", u, got, want)
		}
	}
}
