package reconfig

import (
	"slices"
	"testing"
	"time"
)

// TestBeatsAreSpared: a controller whose heartbeats the data plane takes gets one heartbeat of the agent in three,
// one in six if it takes those of all controllers, and news at once. When the data plane has taken none for two
// intervals, the agent sends all.
func TestBeatsAreSpared(t *testing.T) {
	const start = 1_000_000_000
	for spared, want := range map[bool][]int{
		false: {0, 1, 2, 5, 8, 11, 14, 17, 18, 19, 20, 21, 22, 23},
		true:  {0, 1, 2, 8, 14, 18, 19, 20, 21, 22, 23},
	} {
		var b Beats
		end := uint64(0)
		var sent []int
		for i := range 24 {
			now := uint64(start + i*int(10*ms))
			if i >= 3 && i < 17 { // the plane takes grants
				end = now + 1
			}
			taken := b.See(now, 10*ms, end)
			if b.Due(now, 10*ms, i == 8, spared && taken) {
				sent = append(sent, i)
			}
		}
		if !slices.Equal(sent, want) {
			t.Errorf("spared %v: heartbeats were sent at %v, want %v", spared, sent, want)
		}
	}
}

// TestIdleAgentRests: while the data plane takes all controllers' heartbeats, an agent looks 67 times a second and
// sends 17 heartbeats. Whenever the plane takes no more, the agent sends one within three intervals of the last one.
func TestIdleAgentRests(t *testing.T) {
	const every, start = 10 * ms, time.Second
	for cut := start; cut < start+every; cut += ms / 4 {
		var b Beats
		looks, sent, news := 0, 0, time.Duration(0)
		last := cut - cut%every // when the plane took a heartbeat for the last time
		for now := time.Duration(1); news == 0; {
			end := min(now-now%every, last)
			taken := b.See(uint64(now), every, uint64(end))
			due := b.Due(uint64(now), every, false, taken)
			switch {
			case now > last && due:
				news = now
			case now > last-every && due && !taken: // before the first grant, or a false alarm
				t.Errorf("cut at %v: not taken at %v", cut, now)
			case now < start:
				looks++
				if due {
					sent++
				}
			}
			now += NextLook(every, taken)
		}
		if silent := news - last; silent > 3*every {
			t.Errorf("cut at %v: a heartbeat after %v", cut, silent)
		}
		if looks > 70 || sent > 20 {
			t.Errorf("%d looks and %d heartbeats in a second", looks, sent)
		}
	}
}
