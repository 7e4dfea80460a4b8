package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// rack is a table of machines: whether each is cordoned. One that is not in it has been deleted.
type rack struct {
	mu       sync.Mutex
	cordoned map[string]bool
	away     bool
	looks    int
}

var errAway = errors.New("the API server is away")

func (r *rack) Cordoned(context.Context) (names []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks++; r.away {
		return nil, errAway
	}
	for _, name := range slices.Sorted(maps.Keys(r.cordoned)) {
		if r.cordoned[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *rack) Machine(_ context.Context, name string) (exists, cordoned bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cordoned, exists = r.cordoned[name]
	return exists, cordoned, nil
}

func (r *rack) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// looked waits until the leader has looked at the machines from now on, and has finished.
func (r *rack) looked(c *cluster) {
	c.t.Helper()
	var first int
	r.change(func() { first = r.looks })
	c.eventually("the machines are looked at", func() (done bool) {
		r.change(func() { done = r.looks >= first+2 })
		return done
	})
}

// The nodes of cordoned machines are drained as far as chains allow it, and undrained with their machines, also by a
// controller that has started since. What an operator drained stays drained, and so does the node of a deleted machine.
func TestCordonedMachines(t *testing.T) {
	s := slack()
	s.Replicas = 2
	r := &rack{cordoned: map[string]bool{"n1": false, "n2": false, "n3": false}}
	c := newClusterOf(t, 1, s, r)
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(2)
	standing := func(name, want string, shards bool) {
		t.Helper()
		c.eventually(name+": "+want, func() bool {
			for _, n := range c.status().GetNodes() {
				if n.GetName() == name {
					return n.GetStanding() == want && (n.GetShards() > 0) == shards
				}
			}
			return false
		})
	}
	noted := func(want string) {
		t.Helper()
		c.eventually(want, func() bool {
			return slices.ContainsFunc(c.status().GetNotes(), func(note string) bool { return strings.HasPrefix(note, want) })
		})
	}
	operate := func(request *controllerv1.OperateRequest) error {
		_, err := c.dial(0).Operate(c.soon(), request)
		return err
	}

	r.change(func() { r.cordoned["n1"] = true })
	standing("n1", "cordoned", false)
	if err := operate(&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: "n1"}}); err == nil {
		t.Error("the node of a cordoned machine is undrained")
	}
	r.change(func() { r.cordoned["n2"] = true })
	noted("machine n2 is cordoned, and its node is not drained: without node n2")
	standing("n2", "up", true)
	r.change(func() { r.cordoned["n2"], r.away = false, true })
	noted("nodes of cordoned machines are not drained: " + errAway.Error())

	c.stopController(0)
	r.change(func() { r.cordoned["n1"], r.away = false, false })
	c.startController(0)
	standing("n1", "up", true)

	r.change(func() { r.cordoned["n1"] = true })
	standing("n1", "cordoned", false)
	if err := operate(&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}); err != nil {
		t.Errorf("an operator takes a drain over: %v", err)
	}
	r.change(func() { r.cordoned["n1"] = false })
	r.looked(c)
	standing("n1", "draining", false)
	if err := operate(&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: "n1"}}); err != nil {
		t.Error(err)
	}
	standing("n1", "up", true)

	c.fullyReplicated(2)
	r.change(func() { r.cordoned["n3"] = true })
	standing("n3", "cordoned", false)
	r.change(func() { delete(r.cordoned, "n3") })
	r.looked(c)
	standing("n3", "cordoned", false)
}

// Of two drains that come at the same time, and are too many together, one is refused: the other change is being stored
// when the leader checks it.
func TestDrainsAtTheSameTime(t *testing.T) {
	const rounds = 2
	s := slack()
	s.Replicas = 2
	c := newClusterOf(t, 1, s, nil)
	c.startNodes("n1", "n2", "n3")
	for range rounds {
		c.fullyReplicated(2)
		names, refused := []string{"n1", "n2"}, make([]error, 2)
		var asking sync.WaitGroup
		for i, name := range names {
			leader := c.dial(0)
			asking.Go(func() {
				request := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: name}}
				_, refused[i] = leader.Operate(c.soon(), request)
			})
		}
		asking.Wait()
		if (refused[0] == nil) == (refused[1] == nil) {
			t.Fatalf("two drains of three nodes for chains of two: %v", refused)
		}
		taken := names[slices.Index(refused, nil)]
		request := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Undrain{Undrain: taken}}
		if _, err := c.dial(0).Operate(c.soon(), request); err != nil {
			t.Fatal(err)
		}
	}
}
