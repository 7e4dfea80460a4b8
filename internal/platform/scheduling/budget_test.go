package scheduling

import (
	"testing"
	"time"
)

// TestTogetherWithinTheShare: however many tasks rest in turn, the process keeps to its share of a CPU.
func TestTogetherWithinTheShare(t *testing.T) {
	const part = 500 * time.Microsecond
	for _, tasks := range []int{1, 2, 4} {
		b, start := new(budget), time.Now()
		now, used := start, time.Duration(0)
		wakes := make([]time.Time, tasks)
		for i := range wakes {
			wakes[i] = start
		}
		for range 1000 {
			next := 0
			for i := range wakes {
				if wakes[i].Before(wakes[next]) {
					next = i
				}
			}
			if wakes[next].After(now) {
				now = wakes[next]
			}
			now, used = now.Add(part), used+part
			wakes[next] = now.Add(b.rest(now, used))
		}
		if got := float64(used) / float64(now.Sub(start)); got > 1.1*share || got < 0.9*share {
			t.Errorf("%d tasks used %.2f of a CPU, want %.2f", tasks, got, share)
		}
	}
}

// TestRestIsBounded: a process that uses more than its share without deferrable work does not stop that work.
func TestRestIsBounded(t *testing.T) {
	b, now := new(budget), time.Now()
	b.rest(now, 0)
	if rest := b.rest(now.Add(time.Second), 2*time.Second); rest != longestRest {
		t.Errorf("a pause of %v, want %v", rest, longestRest)
	}
	if rest := b.rest(now.Add(2*time.Second), 2*time.Second); rest != 0 {
		t.Errorf("a pause of %v after a second without work", rest)
	}
}

func TestProcessTimeGrows(t *testing.T) {
	before, err := processTime()
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, err := processTime()
		if err != nil || now < before {
			t.Fatalf("%v of CPU time after %v, error %v", now, before, err)
		}
		if now > before {
			return
		}
	}
}
