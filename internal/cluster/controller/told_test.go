package controller

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// book is a log that a test reads.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) says(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), what)
}

// A node that is removed while it lives is told so.
func TestRemovedNodeIsTold(t *testing.T) {
	s := slack()
	s.Replicas = 1
	c := newCluster(t, 1, s)
	c.startNode("n1")
	c.fullyReplicated(1)
	said := &book{}
	c.log = slog.New(slog.NewTextHandler(said, nil))
	c.startNode("n2")
	c.eventually("n2 is in the cluster", func() bool { return c.controllers[0].view.clone().Nodes[2] != nil })
	for _, command := range []*controllerv1.OperateRequest{
		{Kind: &controllerv1.OperateRequest_Drain{Drain: "n2"}}, {Kind: &controllerv1.OperateRequest_Remove{Remove: "n2"}},
	} {
		c.eventually("the command is taken", func() bool { // the drain takes its time
			_, err := c.dial(0).Operate(c.soon(), command)
			return err == nil
		})
	}
	c.eventually("n2 is told", func() bool { return said.says("node n2 was removed from the cluster") })
}

// A second node of a name whose first one lives is refused, with the reason, and the first one goes on. One that is gone, or
// stands still, leaves the name to the second.
func TestSecondNodeOfAName(t *testing.T) {
	s := slack()
	s.Replicas = 1
	c := newCluster(t, 1, s)
	first := c.startNode("n1")
	c.fullyReplicated(1)
	join := agent.Join{Controllers: c.addresses, Capacity: 100, Identity: agent.NewIdentity()}
	ask := func() error {
		_, err := join.Ask(c.soon(), "n1", netip.MustParseAddrPort("127.1.8.9:4411").String(), "", logOf("second"))
		return err
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "a node named n1 lives already, at "+first.plane.Addr().String()) {
		t.Errorf("beside the first: %v", err)
	}
	c.fullyReplicated(1)
	first.serving.end()
	if err := ask(); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// A node whose connection lasts but that is not heard any more does not keep its name.
func TestSilentNodeDoesNotKeepItsName(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.leader()
	stream := newMembershipStream(1, reconfig.Registration{Name: "n1", Incarnation: 7}, "")
	stream.lastSeen.Store(int64(c.controllers[0].now()))
	c.controllers[0].nodes.add(stream)
	defer c.controllers[0].nodes.remove(stream)
	for _, incarnation := range []uint64{7, 8} {
		began := time.Now()
		if err := c.controllers[0].namesake(c.soon(), &reconfig.Registration{Name: "n1", Incarnation: incarnation}); err != nil {
			t.Errorf("incarnation %d after %v: %v", incarnation, time.Since(began), err)
		}
	}
}

// At rest no controller is shown as behind: the leader asks the others, and does not wait for a reason to fence.
func TestStatusKnowsWhatControllersHave(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	c.eventually("all controllers have the newest change", func() bool {
		s := c.status()
		for _, one := range s.GetControllers() {
			if one.GetChange() != s.GetChange() {
				return false
			}
		}
		return len(s.GetControllers()) == 3
	})
}
