package sim

import (
	"testing"
)

func TestFirst(t *testing.T) {
	for _, p := range Protocols() {
		r := NewRunner()
		kinds := map[Kind]int{}
		first := map[Kind]uint64{}
		for seed := uint64(1); seed <= 400; seed++ {
			c := Draw(p, seed)
			res, err := r.Run(c)
			if err != nil {
				t.Fatal(err)
			}
			v, err := r.Judge(c, res)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range v.Violations {
				if kinds[one.Kind] == 0 {
					first[one.Kind] = seed
				}
				kinds[one.Kind]++
			}
		}
		t.Log(p, kinds, first)
	}
}
