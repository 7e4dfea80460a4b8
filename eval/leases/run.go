package leases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/peer/etcd"
)

const (
	dialWithin   = 10 * time.Second
	answerWithin = 30 * time.Second
	// killedFor is the length of the load during which the active gateway is killed.
	killedFor = 10 * time.Second
	// collectAt is by how many percent the heap of the clients grows between two garbage collections. They share their
	// CPUs with the stores.
	collectAt = 400
)

// side is one of the stores, with the nodes whose leases it has.
type side struct {
	nodes   []*node
	clients []*clientv3.Client
	cpu     func() (time.Duration, error) // of the servers
}

// Run starts the etcd and two gateways, the first of which is the active one, and measures.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	}
	o.say("starting %d etcd members and two memory gateways", o.Members)
	members, err := etcd.Start(ctx, etcd.Options{Binary: o.Etcd, Members: o.Members})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, members.Stop()) }()
	var gateways []*etcdgateway.Process
	var addresses []string
	for range 2 {
		g, err := etcdgateway.StartProcess(ctx, o.Gateway)
		if err != nil {
			return nil, err
		}
		defer g.Kill()
		if err := await(ctx, g.Address()); err != nil {
			return nil, err
		}
		gateways, addresses = append(gateways, g), append(addresses, g.Address())
	}
	ours, err := o.connect(addresses)
	if err != nil {
		return nil, err
	}
	defer ours.hangUp()
	theirs, err := o.connect(members.Endpoints())
	if err != nil {
		return nil, err
	}
	defer theirs.hangUp()
	null, err := o.startNull()
	if err != nil {
		return nil, err
	}
	defer null.stop()
	ours.cpu = func() (time.Duration, error) { return cputime.Below(os.Getpid(), members.PIDs()...) }
	theirs.cpu = func() (time.Duration, error) { return cputime.Of(members.PIDs()...) }
	r := newResult(&o, members.Settings())
	for round := range o.Rounds {
		o.say("round %d of %d", round+1, o.Rounds)
		var p Round
		if p.Gateway, err = o.load(ours).measured(ctx, o.length()); err != nil {
			return nil, err
		}
		if p.Etcd, err = o.load(theirs).measured(ctx, o.length()); err != nil {
			return nil, err
		}
		p.Null = o.load(null.side).run(ctx, o.length(), nil)
		r.Rounds = append(r.Rounds, p)
	}
	o.say("killing the active gateway")
	r.Killed = o.load(ours).run(ctx, killedFor, gateways[0].Kill)
	lost, err := countLost(ctx, ours.clients[0], ours.nodes)
	if err != nil {
		return nil, err
	}
	r.Killed.Lost += lost
	r.summarise()
	return r, ctx.Err()
}

// await waits until a gateway answers. The first one is the active one then.
func await(ctx context.Context, address string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := c.Get(ctx, prefix); err != nil {
		return fmt.Errorf("the gateway at %s does not answer: %w", address, err)
	}
	return nil
}

// connect opens clients, each of which begins with another endpoint.
func (o *Options) connect(endpoints []string) (*side, error) {
	s := &side{nodes: newNodes(o.Nodes)}
	for i := range o.Conns {
		at := i % len(endpoints)
		c, err := clientv3.New(clientv3.Config{
			Endpoints:   append(append([]string{}, endpoints[at:]...), endpoints[:at]...),
			DialTimeout: dialWithin, Logger: zap.NewNop(), // errors are counted
		})
		if err != nil {
			s.hangUp()
			return nil, fmt.Errorf("connect to %s: %w", endpoints[at], err)
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

func (s *side) hangUp() {
	for _, c := range s.clients {
		_ = c.Close() // its error only reports that the connection is gone
	}
}

func (o *Options) load(s *side) *load {
	return &load{clients: s.clients, nodes: s.nodes, workers: o.Workers, bytes: o.ValueBytes, cpu: s.cpu}
}
