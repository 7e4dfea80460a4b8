package controller

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
)

// grow makes room for one more controller in the test, and returns its number.
func (c *cluster) grow() int {
	c.t.Helper()
	i := len(c.addresses)
	free := freeAddresses(c.t, 2)
	c.addresses = append(c.addresses, free[0])
	if c.peers != nil {
		c.peers[nameOf(i)] = free[1]
		c.dirs = append(c.dirs, memoryDir(c.t))
	}
	c.controllers, c.serving = append(c.controllers, nil), append(c.serving, nil)
	return i
}

// request asks the leader for a change of the controllers, again while it says that it has to wait.
func (c *cluster) request(in *controllerv1.ControllersRequest) error {
	c.t.Helper()
	var err error
	cut := false
	c.eventually("the leader answers", func() bool {
		_, err = c.dial(c.leader()).Controllers(c.soon(), in)
		if cut && in.GetRemove() != "" && status.Code(err) == codes.NotFound { // a leader that removed itself may not answer
			err = nil
		}
		cut = cut || status.Code(err) == codes.Unavailable
		waits := err != nil && (strings.Contains(err.Error(), "for a few seconds") || strings.Contains(err.Error(), "try again"))
		return status.Code(err) != codes.FailedPrecondition && status.Code(err) != codes.Unavailable && !waits
	})
	return err
}

func (c *cluster) add(i int) error {
	c.t.Helper()
	return c.request(&controllerv1.ControllersRequest{
		Add: &controllerv1.ControllerSpec{Name: nameOf(i), Address: c.addresses[i], Peer: c.peers[nameOf(i)]},
	})
}

// counting waits until all controllers of the set count, and all that run know that.
func (c *cluster) counting(controllers int) {
	c.t.Helper()
	c.eventually("the set of controllers is settled", func() bool {
		for _, one := range c.controllers {
			if one == nil {
				continue
			}
			one.view.mu.Lock()
			s := one.view.formation.Controllers
			one.view.mu.Unlock()
			if len(s.Members) != controllers || s.Joining.Address != "" || s.Leaving.Address != "" {
				return false
			}
		}
		return true
	})
}

// addAndStart adds a controller and starts it.
func (c *cluster) addAndStart() int {
	c.t.Helper()
	i := c.grow()
	if err := c.add(i); err != nil {
		c.t.Fatal(err)
	}
	c.startReplacement(i, true)
	c.counting(i + 1)
	return i
}

// expelled waits until a controller has ended because it was removed.
func (c *cluster) expelled(i int) {
	c.t.Helper()
	select {
	case err := <-c.serving[i].done:
		if err == nil || !strings.Contains(err.Error(), "was removed") {
			c.t.Errorf("the removed controller ends with %v", err)
		}
		close(c.serving[i].done)
	case <-c.soon().Done():
		c.t.Fatal("the removed controller goes on")
	}
	c.controllers[i] = nil
}

// counter adds to a counter all the time. The function that it returns ends that and compares the sum.
func (c *cluster) counter() (added *atomic.Uint64, end func()) {
	kv := c.client()
	added = new(atomic.Uint64)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	over := sync.OnceFunc(func() {
		close(stop)
		writing.Wait()
	})
	c.t.Cleanup(over)
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := kv.Add(c.soon(), "counter", 1); err != nil {
				c.t.Error(err)
				return
			}
			added.Add(1)
		}
	})
	return added, func() {
		c.t.Helper()
		over()
		got, err := kv.Get(c.soon(), "counter")
		if count, counter := got.Counter(); err != nil || !counter || uint64(count) != added.Load() {
			c.t.Errorf("the counter is %d, %v after %d additions", count, err, added.Load())
		}
	}
}

// leased waits until every node that runs has a lease by its agent's streams or by heartbeats, given after a moment.
func (c *cluster) leased() {
	c.t.Helper()
	for name, n := range c.nodes {
		from := n.plane.Clock()
		c.eventually("a lease of "+name, func() bool {
			granted, err := n.plane.Granted()
			return err == nil && granted.Until > from+uint64(c.settings.Lease)
		})
	}
}

// TestAddedAndRemovedControllers: a cluster of one controller gets two more while clients write. Then the first, which
// leads, is removed, and the others go on: leases, repairs and elections need a majority of the new set.
func TestAddedAndRemovedControllers(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	added, end := c.counter()
	c.addAndStart()
	c.leased()
	c.addAndStart()
	c.leased()
	if err := c.request(&controllerv1.ControllersRequest{Remove: "c1"}); err != nil {
		t.Fatal(err)
	}
	c.expelled(0)
	c.counting(2)
	c.leased()
	from := added.Load()
	c.nodes["n3"].serving.end() // only a new change of the state repairs this
	delete(c.nodes, "n3")
	c.fullyReplicated(2)
	c.eventually("writes go on", func() bool { return added.Load() >= from+100 })
	end()

	c.stopController(2) // later starts name the controllers of that time
	c.startController(2)
	c.counting(2)
	c.startController(0) // which has its data, but is not wanted
	c.expelled(0)
}

// TestControllersOfAnExternalEtcd: the set changes in the same way where the controllers run no etcd.
func TestControllersOfAnExternalEtcd(t *testing.T) {
	etcd := newOutside(t)
	c := newClusterOn(t, etcd)
	_, end := c.counter()
	c.addAndStart()
	c.leased()
	if err := c.request(&controllerv1.ControllersRequest{Remove: c.addresses[0]}); err != nil {
		t.Fatal(err)
	}
	c.expelled(0)
	c.counting(1)
	c.leased()
	end()
}

// TestControllersRefused: changes that would end all leases, or that name the wrong controller.
func TestControllersRefused(t *testing.T) {
	c := newCluster(t, 1, slack())
	refused := func(what, want string, in *controllerv1.ControllersRequest) {
		t.Helper()
		if err := c.request(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	refused("the last", "only controller", &controllerv1.ControllersRequest{Remove: "c1"})
	refused("unknown", "no such controller", &controllerv1.ControllersRequest{Remove: "c9"})
	spec := func(name, address string) *controllerv1.ControllersRequest {
		return &controllerv1.ControllersRequest{Add: &controllerv1.ControllerSpec{Name: name, Address: address, Peer: "127.1.8.9:7"}}
	}
	refused("a name that is taken", "is the name of", spec("c1", "127.1.8.9:6"))
	refused("an address that is taken", "is the address of", spec("c7", c.addresses[0]))
	refused("no address", "NAME=ADDRESS", spec("c7", "somewhere"))
	i := c.grow()
	if err := c.add(i); err != nil {
		t.Fatal(err)
	}
	if err := c.add(i); err != nil {
		t.Errorf("repeated: %v", err)
	}
	refused("a second one", "one can at a time", spec("c7", "127.1.8.9:6"))
	if err := c.request(&controllerv1.ControllersRequest{Remove: nameOf(i)}); err != nil {
		t.Errorf("one that was not started: %v", err)
	}
	c.counting(1)
	if err := c.add(i); err != nil {
		t.Fatal(err)
	}
	c.startReplacement(i, true)
	c.counting(2)
	c.addAndStart()
	leader := c.leader()
	away, other := (leader+1)%3, (leader+2)%3
	c.stopController(away)
	c.eventually("the leader notices", func() bool { return !c.controllers[leader].peers.get(c.addresses[away]).reachable() })
	refused("a majority's member", "fewer than a majority", &controllerv1.ControllersRequest{Remove: nameOf(other)})
	if err := c.request(&controllerv1.ControllersRequest{Remove: nameOf(away)}); err != nil {
		t.Errorf("the one that is gone: %v", err)
	}
	c.counting(2)
}

// TestRestartedControllerIsReached: a controller that restarted is reached again, though no change of the state is on its way.
func TestRestartedControllerIsReached(t *testing.T) {
	c := newCluster(t, 3, slack())
	leader := c.leader()
	other := (leader + 1) % 3
	p := c.controllers[leader].peers.get(c.addresses[other])
	c.eventually("the others are reached", p.reachable)
	c.stopController(other)
	c.eventually("the leader notices", func() bool { return !p.reachable() })
	c.startController(other)
	c.eventually("it is reached again", func() bool { return p.reachable() })
}

// TestControllerBesideTheSetGrantsNothing: one that joins does not count, and nodes must not count it.
func TestControllerBesideTheSetGrantsNothing(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.startNodes("n1")
	c.eventually("the node has a number", func() bool { return len(c.controllers[0].view.clone().Nodes) == 1 })
	v := newView("127.9.9.9:1", func() time.Duration { return time.Hour }, nil, func() {})
	v.Loaded(store.Formation{}, c.controllers[0].view.clone())
	for id, n := range v.state.Nodes {
		if v.grants(id, n.Incarnation) {
			t.Error("a controller that is no member grants a lease")
		}
	}
}
