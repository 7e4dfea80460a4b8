package controller

import (
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// balanceEvery is the time between two looks at the load.
const balanceEvery = time.Second

// balance requests changes that suit the load from the leader, as an operator would. It works on copies of the state and the
// load, so that nothing waits for it.
func (t *leading) balance() {
	ticks := time.NewTicker(balanceEvery)
	defer ticks.Stop()
	balancer := reconfig.NewBalancer(t.c.options.Balance)
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-ticks.C:
		}
		state := t.c.view.clone()
		if state == nil {
			continue
		}
		t.c.loading.Lock()
		commands := balancer.Decide(t.c.now(), state, t.c.loads)
		t.c.loading.Unlock()
		for _, command := range commands {
			t.inbox.call(func(l *reconfig.Leader) {
				if _, err := l.Operate(t.c.now(), command); err != nil {
					t.c.log.Info("the load asks for a change that is refused", "command", reconfig.Describe(command), "because", err)
					return
				}
				t.c.log.Info("the load asks for a change", "command", reconfig.Describe(command))
			})
		}
	}
}
