package sim

import (
	"testing"
	"time"
)

func TestFirst(t *testing.T) {
	for _, p := range Protocols() {
		r := NewRunner()
		seen := map[Kind]int{}
		first := map[Kind]uint64{}
		start := time.Now()
		for seed := uint64(1); seed <= 400; seed++ {
			c := Draw(p, seed)
			_, v, err := r.judged(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range v.Violations {
				seen[one.Kind]++
				if seen[one.Kind] == 1 {
					first[one.Kind] = seed
					e, err := r.Counterexample(c, one.Kind)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("\n%v", e)
				}
			}
		}
		t.Log("SUM", p, seen, first, time.Since(start))
	}
}
