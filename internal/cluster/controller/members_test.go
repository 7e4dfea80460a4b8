package controller

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// TestReplacedController: a controller that lost its data is replaced while the others serve. Then another one may end:
// leases and writes go on all the time, which they cannot with one of the first three alone.
func TestReplacedController(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	added, end := c.counter()
	lost := (c.leader() + 1) % 3
	c.stopController(lost)
	if err := os.RemoveAll(c.dirs[lost]); err != nil {
		t.Fatal(err)
	}
	if err := c.replace(nameOf(lost)); err != nil {
		t.Fatal(err)
	}
	if err := c.replace(nameOf(lost)); err != nil {
		t.Errorf("repeated: %v", err)
	}
	c.startReplacement(lost, true)
	c.eventually("the new controller votes", func() bool {
		out, err := c.dial(c.leader()).Controllers(c.soon(), &controllerv1.ControllersRequest{})
		if err != nil {
			return false
		}
		votes := 0
		for _, m := range out.GetMembers() {
			if m.GetStarted() && !m.GetLearner() {
				votes++
			}
		}
		return votes == 3
	})
	c.eventually("it follows the state", func() bool {
		return c.controllers[lost].view.change() >= c.controllers[c.leader()].view.change()
	})
	c.stopController((lost + 1) % 3)
	from := added.Load()
	c.nodes["n3"].serving.end() // only a new change of the state repairs this
	c.fullyReplicated(2)
	c.eventually("writes go on", func() bool { return added.Load() >= from+100 })
	end()
}

// replace asks the leader to make a controller's place free.
func (c *cluster) replace(name string) error {
	c.t.Helper()
	var err error
	c.eventually("the leader answers", func() bool {
		_, err = c.dial(c.leader()).Controllers(c.soon(), &controllerv1.ControllersRequest{Replace: name})
		return status.Code(err) != codes.FailedPrecondition && (err == nil || !strings.Contains(err.Error(), "have run for"))
	})
	return err
}

// TestReplaceRefused: what cannot be replaced, and a controller without data that nobody made room for.
func TestReplaceRefused(t *testing.T) {
	c := newCluster(t, 3, slack())
	leader := c.leader()
	for name, want := range map[string]string{
		"c9": "no such controller", nameOf(leader): "it leads", nameOf((leader + 1) % 3): "stop it first",
	} {
		if err := c.replace(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	lost := (leader + 1) % 3
	c.stopController(lost)
	if err := os.RemoveAll(c.dirs[lost]); err != nil {
		t.Fatal(err)
	}
	_, err := c.newController(lost, false)
	if want := fmt.Sprintf("netcraq controllers replace %s", nameOf(lost)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without data: %v", err)
	}
}
