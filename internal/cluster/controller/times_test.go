package controller

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// Times change while the cluster runs: every controller grants by them, nodes send heartbeats by them, a failure is noticed by them, and
// controllers that start again know them.
func TestTimesChangeWhileItRuns(t *testing.T) {
	s := slack()
	s.Suspect, s.SuspectMax, s.Sure = time.Hour, time.Hour, time.Hour
	c := newCluster(t, 3, s)
	c.startNodes("n1", "n2", "n3", "n4")
	c.fullyReplicated(3)
	times := &controllerv1.Times{
		BeatUs: 20_000, SuspectUs: 500_000, SuspectMaxUs: 500_000, SureUs: 600_000, LeaseUs: 800_000, LeaseMaxUs: 900_000,
	}
	if _, err := c.dial(c.leader()).Operate(c.soon(),
		&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Times{Times: times}}); err != nil {
		t.Fatal(err)
	}
	c.eventually("the status has the new times", func() bool {
		got := c.status().GetTimes()
		return got.GetBeatUs() == 20_000 && got.GetSuspectUs() == 500_000 && got.GetLeaseUs() == 800_000
	})
	c.nodes["n4"].serving.end()
	c.eventually("n4 is taken out", func() bool {
		for _, n := range c.status().GetNodes() {
			if n.GetName() == "n4" {
				return n.GetShards() == 0
			}
		}
		return false
	})
	wrong := &controllerv1.Times{LeaseUs: 1}
	if _, err := c.dial(c.leader()).Operate(c.soon(),
		&controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Times{Times: wrong}}); err == nil {
		t.Error("a lease shorter than two heartbeats was taken")
	}
	for i := range c.controllers {
		c.stopController(i)
		c.startController(i) // as its first start was, with the times that the cluster was formed with
	}
	c.eventually("all controllers know the times", func() bool {
		for _, one := range c.controllers {
			want := reconfig.Times{
				Heartbeat: 20 * time.Millisecond, Suspect: 500 * time.Millisecond, SuspectMax: 500 * time.Millisecond, Sure: 600 * time.Millisecond,
				Lease: 800 * time.Millisecond, LeaseMax: 900 * time.Millisecond,
			}
			if f := one.view.formed(); f.Settings.Times() != want || f.Settings.Longest < time.Second {
				return false
			}
		}
		return true
	})
	c.fullyReplicated(3)
}
