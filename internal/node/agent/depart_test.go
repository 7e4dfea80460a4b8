package agent

import (
	"context"
	"testing"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
)

func (c *call) release(term uint64) {
	c.send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Release{Release: &controllerv1.Release{Term: term}}})
}

// ending serves an agent until end is called; over receives the result.
func ending(t *testing.T, o Options) (end context.CancelFunc, over chan error) {
	t.Helper()
	o.API, o.Log = "127.1.1.1:0", quiet
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	over = make(chan error, 1)
	go func() { over <- a.Serve(ctx); close(over) }()
	t.Cleanup(func() { end(); <-over })
	return end, over
}

// TestAgentDeparts: an agent whose plane outlives it announces its end, applies orders until the leader releases it,
// and then ends. The permission of an earlier leader does not count.
func TestAgentDeparts(t *testing.T) {
	o, plane := newOffice(t), listen(t)
	join := joining(t, o)
	join.Remember = func([]byte) error { return nil }
	end, over := ending(t, Options{Name: "a", Plane: plane, Join: join})
	c := o.next()
	c.release(5) // it has not asked
	c.order(reconfig.Order{Term: 5, Number: 1, Configs: map[uint16]reconfig.ShardOrder{1: alone(plane, 3, chain.Frozen)}})
	c.done(5, 1)
	end()
	c.until("the agent announces its end", (*controllerv1.Beat).GetDeparting)
	c.release(4)
	c.order(reconfig.Order{Term: 5, Number: 2, Configs: map[uint16]reconfig.ShardOrder{1: alone(plane, 3, chain.Active)}})
	c.until("the order is applied", func(b *controllerv1.Beat) bool { return b.GetDone() == 2 && b.GetDeparting() })
	c.release(5)
	if err := <-over; err != nil {
		t.Error(err)
	}
	<-c.ended
	if config, err := plane.Config(1); err != nil || config.State != chain.Active {
		t.Errorf("shard 1 is %+v, %v", config, err)
	}
}

// TestAgentEndsUnreleased: an agent does not wait for ever for a leader, and not at all without a controller or if its
// plane ends with it.
func TestAgentEndsUnreleased(t *testing.T) {
	remember := func([]byte) error { return nil }
	for _, test := range []struct {
		name      string
		remember  func([]byte) error
		connected bool
	}{
		{"no answer", remember, true},
		{"no controller", remember, false},
		{"a plane that ends", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOffice(t)
			join := joining(t, o)
			join.Remember = test.remember
			end, over := ending(t, Options{Name: "a", Plane: listen(t), Join: join})
			c := o.next()
			c.until("a heartbeat comes", func(*controllerv1.Beat) bool { return true })
			if !test.connected {
				o.server.Stop()
			}
			end()
			if test.remember != nil && test.connected {
				c.until("the agent announces its end", (*controllerv1.Beat).GetDeparting)
			}
			if err := <-over; err != nil {
				t.Error(err)
			}
			for len(c.heartbeats) > 0 {
				if b := <-c.heartbeats; b.GetDeparting() && test.remember == nil {
					t.Error("an agent announces its end, which the plane does not outlive")
				}
			}
		})
	}
}
