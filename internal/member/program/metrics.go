package program

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/engine"
)

// Metrics, beside etcd's own on /metrics.
var (
	fastReads = prometheus.NewDesc("netcraq_member_fast_reads_total",
		"Linearizable reads answered through the chain.", nil, nil)
	slowReads = prometheus.NewDesc("netcraq_member_slow_reads_total",
		"Linearizable reads answered by etcd, by the reason.", []string{"reason"}, nil)
	pushes = prometheus.NewDesc("netcraq_member_pushes_total",
		"Writes of this member's object in the chain.", nil, nil)
	objectReads = prometheus.NewDesc("netcraq_member_objects_read_total",
		"Objects of members read from the chain: from a node on this machine without a packet, or through the network.",
		[]string{"by"}, nil)
	waited = prometheus.NewDesc("netcraq_member_reveal_wait_seconds_total",
		"Time that answers waited until the chain had their revision.", nil, nil)
	phases = prometheus.NewDesc("netcraq_member_state",
		"1 for the state that etcd's log gives to fast reads.", []string{"state"}, nil)
	views = prometheus.NewDesc("netcraq_member_view_info",
		"1 for the view that is on or being joined.", []string{"view"}, nil)
)

// collector reads the counters of a server.
type collector struct {
	front  *member.Front
	engine *engine.Engine
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{fastReads, slowReads, pushes, objectReads, waited, phases, views} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	counter(fastReads, float64(c.front.Fast()))
	for why := range member.Reasons() {
		counter(slowReads, float64(c.front.Slow(why)), why.String())
	}
	counter(pushes, float64(c.engine.Pushes()))
	nearby, far := c.engine.Objects()
	counter(objectReads, float64(nearby), "machine")
	counter(objectReads, float64(far), "network")
	counter(waited, c.front.Waited().Seconds())
	s := c.engine.Status()
	for phase := core.Off; phase <= core.On; phase++ {
		is := 0.0
		if phase == s.State.Phase {
			is = 1
		}
		out <- prometheus.MustNewConstMetric(phases, prometheus.GaugeValue, is, phase.String())
	}
	if s.State.View != 0 {
		out <- prometheus.MustNewConstMetric(views, prometheus.GaugeValue, 1, fmt.Sprintf("%016x", s.State.View))
	}
}
