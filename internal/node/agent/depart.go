package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// ReleasedMessage is logged by an agent that ends when the leader says that no change of a chain needs it.
const ReleasedMessage = "the agent ends between changes of chains"

// departWithin bounds the wait of an agent that ends for the leader's permission.
const departWithin = 2 * time.Second

// departLook is the interval of checks whether a controller is still connected.
const departLook = 50 * time.Millisecond

// departure is the end of an agent whose data plane goes on. A change of a chain that is under way then would stop the
// writes of its shard until the next agent: so the agent announces its end, and the leader, which knows of all changes,
// releases it when none needs it. Nothing depends on it but time: an agent may end at any moment.
type departure struct {
	announced atomic.Bool
	released  chan struct{}
}

// outlived reports whether the data plane outlives this process.
func (m *membership) outlived() bool { return m.join.Remember != nil }

// departAfter returns a context that ends when the agent has been released after the end of ctx, or with the function
// that it returns too.
func (m *membership) departAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		m.depart(serving)
		end()
	})
	return serving, func() { stop(); end() }
}

// depart announces the end of the agent and waits until it is released, for as long as a controller is connected.
func (m *membership) depart(ctx context.Context) {
	m.leaving.announced.Store(true)
	poke(m.news)
	late := time.NewTimer(departWithin)
	defer late.Stop()
	look := time.NewTicker(departLook)
	defer look.Stop()
	for m.connected() {
		select {
		case <-look.C:
			continue
		case <-m.leaving.released:
			m.log.Info(ReleasedMessage)
		case <-ctx.Done():
		case <-late.C:
			m.log.Warn("the agent ends although a change of chains may need it, or no controller leads: writes of this node's shards "+
				"may wait until its next agent runs", "waited", departWithin)
		}
		return
	}
}

// connected reports whether the agent has a membership stream to a controller.
func (m *membership) connected() bool {
	return slices.ContainsFunc(m.allLinks(), func(l *link) bool { return l.welcomedBy() != "" })
}

// released handles the leader's permission to end. That of an earlier leader than the one whose orders the node applies
// does not count.
func (m *membership) released(term uint64) {
	if m.leaving.announced.Load() && term >= m.status.Load().Term {
		poke(m.leaving.released)
	}
}
