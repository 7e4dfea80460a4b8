package xdp

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// TestWalkGivesWay: a walk that is under way lets an urgent one go first, and then finds all that it looks for.
func TestWalkGivesWay(t *testing.T) {
	const count = 100_000 // more than a walk looks at before its first rest
	onFullPlane(t, count, func(p *Plane) error {
		resting, over := make(chan struct{}), make(chan error, 1)
		rested := false
		slow := pace{rest: func(time.Duration) time.Duration {
			if !rested {
				rested = true
				close(resting)
				for !p.turns.givesWay(background) {
					runtime.Gosched()
				}
			}
			return 0
		}}
		go func() {
			keys, err := p.changedKeys(allShards(), new(sinceSet), slow)
			if keys.count() < count {
				err = errors.Join(err, errors.New("the walk that gave way misses objects"))
			}
			over <- err
		}()
		<-resting
		rests := 0
		urgent := pace{urgent: true, rest: func(time.Duration) time.Duration {
			if rests++; len(over) > 0 {
				t.Error("the urgent walk had to wait for the other one")
			}
			return 0
		}}
		_, err := p.objectKeys(allShards(), urgent, isDirty)
		if rests == 0 {
			t.Error("the urgent walk did not rest: the test shows nothing")
		}
		return errors.Join(err, <-over)
	})
}
