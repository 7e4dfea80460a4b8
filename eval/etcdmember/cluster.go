package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/peer/etcd"
)

const (
	dialWithin = 10 * time.Second
	// onWithin bounds how long the members take until they read through the chain.
	onWithin = 30 * time.Second
	onLook   = 50 * time.Millisecond
	// fillWith is how many keys one transaction of [cluster.fill] writes: etcd's limit.
	fillWith = 128
)

// cluster is one side of the comparison, with clients of all members in turn.
type cluster struct {
	Servers
	clients []*clientv3.Client
	frames  []*etcdload.FrameConn
}

// connect connects the clients to servers, which it stops after an error, and writes all keys.
func connect(ctx context.Context, o *Options, running Servers) (_ *cluster, err error) {
	c := &cluster{Servers: running}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	endpoints := c.Endpoints()
	for i := range o.Conns {
		endpoint := endpoints[i%len(endpoints)]
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{endpoint}, DialTimeout: dialWithin, Logger: zap.NewNop(), // errors are counted
		})
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
		}
		c.clients = append(c.clients, client)
		frames, err := etcdload.DialFrames(strings.TrimPrefix(endpoint, "http://"))
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
		}
		c.frames = append(c.frames, frames)
	}
	return c, c.fill(ctx, o)
}

// at returns the connections to the members at a place. Connection i is to member i modulo their number.
func at[C any](ctx context.Context, c *cluster, p place, connections []C) (those []C, err error) {
	if p == everywhere {
		return connections, nil
	}
	leads, members := -1, c.Endpoints()
	for i, endpoint := range members {
		s, err := c.clients[i].Status(ctx, endpoint)
		if err != nil {
			return nil, err
		}
		if s.Leader == s.Header.MemberId {
			leads = i
		}
	}
	if leads < 0 {
		return nil, errors.New("no member leads")
	}
	for i := range connections {
		if (i%len(members) == leads) == (p == leader) {
			those = append(those, connections[i])
		}
	}
	return those, nil
}

func (c *cluster) stop() error {
	for _, client := range c.clients {
		_ = client.Close() // its error only reports that the connection is gone
	}
	for _, f := range c.frames {
		_ = f.Close()
	}
	return c.Stop()
}

// fill writes all keys.
func (c *cluster) fill(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	value, errs := strings.Repeat("v", o.ValueBytes), make([]error, len(c.clients))
	var group sync.WaitGroup
	for w, client := range c.clients {
		group.Go(func() {
			for from := w * fillWith; from < o.Keys && errs[w] == nil; from += len(c.clients) * fillWith {
				var puts []clientv3.Op
				for i := from; i < min(from+fillWith, o.Keys); i++ {
					puts = append(puts, clientv3.OpPut(keyOf(i), value))
				}
				if _, errs[w] = client.Txn(ctx).Then(puts...).Commit(); errs[w] != nil {
					cancel()
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Metrics of a member that reads through a chain.
const (
	FastMetric  = "netcraq_member_fast_reads_total"
	stateMetric = "netcraq_member_state"
	stateOn     = "on"
)

// Members are the options of a cluster of members that read through a chain.
func Members(netcraq, chainFile, pins string, members int) etcd.Options {
	return etcd.Options{
		Binary: netcraq, Command: []string{"etcd", "--chain-cluster=" + chainFile, "--chain-pins=" + pins}, Members: members,
	}
}

// StartMembers starts a cluster of members, and waits until all read through the chain.
func StartMembers(ctx context.Context, netcraq, chainFile, pins string, members int) (Servers, error) {
	c, err := etcd.Start(ctx, Members(netcraq, chainFile, pins, members))
	if err != nil {
		return nil, err
	}
	if err := AwaitOn(ctx, c); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// AwaitOn waits until all members of a cluster read through the chain.
func AwaitOn(ctx context.Context, c *etcd.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, onWithin)
	defer cancel()
	isOn := func(m *dto.Metric) float64 {
		if len(m.Label) == 1 && m.Label[0].GetValue() == stateOn {
			return m.GetGauge().GetValue()
		}
		return 0
	}
	for {
		on, err := sum(ctx, c, stateMetric, isOn)
		if err == nil && int(on) == len(c.Endpoints()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the members do not all read through the chain %v after their start", onWithin), err)
		case <-time.After(onLook):
		}
	}
}

// counted adds up a counter of all servers; without a name it is 0.
func (c *cluster) counted(ctx context.Context, name string) (float64, error) {
	if name == "" {
		return 0, nil
	}
	return sum(ctx, c, name, counterOf)
}

func counterOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() }

// FastReads returns how many reads members answered through the chain.
func FastReads(ctx context.Context, members Servers) (uint64, error) {
	n, err := sum(ctx, members, FastMetric, counterOf)
	return uint64(n), err
}

// sum adds up a metric of all members.
func sum(ctx context.Context, c Servers, name string, value func(*dto.Metric) float64) (sum float64, err error) {
	for _, endpoint := range c.Endpoints() {
		families, err := etcd.Metrics(ctx, endpoint)
		if err != nil {
			return 0, err
		}
		if families[name] == nil {
			return 0, fmt.Errorf("a member's metrics do not contain %s", name)
		}
		for _, m := range families[name].Metric {
			sum += value(m)
		}
	}
	return sum, nil
}
