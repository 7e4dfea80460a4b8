package dashboard

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	askAgentsEvery   = time.Second
	askGatewaysEvery = 2 * time.Second
	tryAgainAfter    = time.Second
	keptEvents       = 200
)

// Source says where a cluster's state comes from.
type Source struct {
	Leader   *admin.Leader // nil: the chains are static
	Open     func(context.Context) (*connect.Client, error)
	Dial     grpc.DialOption
	Gateways *pages.Client // nil: none
	// Writes lets the page write keys of its own, to show the path of a write.
	Writes bool
}

// collector keeps the newest view of a cluster, and its events.
type collector struct {
	source   Source
	audience *audience // nodes and gateways are asked while there is one

	mu      sync.Mutex
	view    *View
	events  []Event
	number  int           // of the last event
	changed chan struct{} // closed at the next change
	client  *connect.Client
}

func newCollector(source Source) *collector {
	view := &View{}
	if source.Gateways != nil {
		view.Gateways = source.Gateways.Gateways
	}
	return &collector{source: source, audience: newAudience(), view: view, changed: make(chan struct{})}
}

// run follows the cluster until ctx ends.
func (c *collector) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.followMap(ctx) })
	running.Go(func() { c.askAgents(ctx) })
	if c.source.Leader != nil {
		running.Go(func() { c.followStatus(ctx) })
	}
	if c.source.Gateways != nil {
		running.Go(func() { c.askGateways(ctx) })
	}
}

// update replaces the view by a changed copy of it.
func (c *collector) update(change func(*View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.view
	next.Troubles = maps.Clone(next.Troubles)
	change(&next)
	events := number(Compare(c.view, &next), time.Now(), c.number)
	c.number += len(events)
	c.events = append(c.events[max(0, len(c.events)+len(events)-keptEvents):len(c.events):len(c.events)], events...)
	c.view = &next
	close(c.changed)
	c.changed = make(chan struct{})
}

// trouble notes why something is not known; nil: it is.
func (v *View) trouble(what string, err error) {
	if err == nil {
		delete(v.Troubles, what)
		return
	}
	if v.Troubles == nil {
		v.Troubles = make(map[string]string)
	}
	v.Troubles[what] = err.Error()
}

// document returns the newest document in JSON, and a channel that is closed when there is a newer one.
func (c *collector) document() ([]byte, <-chan struct{}, error) {
	c.mu.Lock()
	view, events, changed := c.view, c.events, c.changed
	c.mu.Unlock()
	text, err := json.Marshal(Build(time.Now(), view, events))
	return text, changed, err
}

func (c *collector) followStatus(ctx context.Context) {
	const what = "controllers"
	progress := new(admin.Progress)
	show := func(s *admin.Snapshot) bool {
		now := time.Now()
		progress.See(now, s)
		work := progress.Work(now, s)
		c.update(func(v *View) {
			v.Status, v.Progress = s, work
			v.trouble(what, nil)
		})
		return true
	}
	lost := func(err error) { c.update(func(v *View) { v.trouble(what, err) }) }
	for {
		if err := c.source.Leader.Watch(ctx, true, show, lost); err != nil && ctx.Err() == nil {
			lost(err)
		}
		if !retry.Sleep(ctx, tryAgainAfter) {
			return
		}
	}
}

// followMap opens a client of the cluster, which requests are traced with too, and follows its map.
func (c *collector) followMap(ctx context.Context) {
	const what = "chains"
	for {
		opened, err := c.source.Open(ctx)
		if err == nil {
			defer opened.Close()
			stop := opened.Watch(func(m *client.Map) {
				c.update(func(v *View) {
					v.Map = m
					v.trouble(what, nil)
				})
			})
			defer stop()
			c.mu.Lock()
			c.client = opened
			c.mu.Unlock()
			<-ctx.Done()
			c.mu.Lock()
			c.client = nil
			c.mu.Unlock()
			return
		}
		c.update(func(v *View) { v.trouble(what, err) })
		if !retry.Sleep(ctx, tryAgainAfter) {
			return
		}
	}
}

// askAgents asks the agents of the map's nodes again and again.
func (c *collector) askAgents(ctx context.Context) {
	var before []*agent.Report
	var asked time.Time
	for c.audience.await(ctx) {
		c.mu.Lock()
		m := c.view.Map
		c.mu.Unlock()
		if m != nil {
			now := time.Now()
			reports := c.inspect(ctx, m.Nodes)
			counted := rates(before, reports, now.Sub(asked))
			before, asked = reports, now
			c.update(func(v *View) { v.Reports, v.Messages = reports, counted })
		}
		if !retry.Sleep(ctx, askAgentsEvery) {
			return
		}
	}
}

func (c *collector) inspect(ctx context.Context, nodes []topology.Node) []*agent.Report {
	ctx, cancel := context.WithTimeout(ctx, askAgentsEvery)
	defer cancel()
	return agent.Inspect(ctx, agent.Targets(nodes), nil, c.source.Dial)
}

func (c *collector) askGateways(ctx context.Context) {
	for c.audience.await(ctx) {
		keys, failed, err := c.source.Gateways.Hottest(ctx, maxKeys)
		c.update(func(v *View) {
			v.Keys, v.Failed = keys, failed
			v.trouble("gateways", err)
		})
		if !retry.Sleep(ctx, askGatewaysEvery) {
			return
		}
	}
}
