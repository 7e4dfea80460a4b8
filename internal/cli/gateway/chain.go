package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
	"github.com/netcraq/netcraq/internal/gateway/uses"
	"github.com/netcraq/netcraq/internal/node/nearby"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

// chainPause is the pause between two tries to reach the chain. Each try waits for an answer as well.
const chainPause = time.Second

// chain is a gateway's connection to its chain. Controllers may run on the Kubernetes cluster whose API server uses the
// gateway: they start only after the gateway serves. So a gateway without its chain serves from etcd.
type chain struct {
	flags *cli.ClusterFlags
	log   *slog.Logger
	open  *connect.Client // nil: not reached yet
	away  error           // why not
	late  objects.Late
	nodes *uses.Agents
	near  *nearby.Reads // nil: all reads use the network
}

// connectChain tries to reach the chain once. An error is one that will not pass.
func connectChain(ctx context.Context, flags *cli.ClusterFlags, pins string, log *slog.Logger) (*chain, error) {
	dial, err := flags.Dial()
	if err != nil {
		return nil, err
	}
	c := &chain{flags: flags, log: log, nodes: uses.New(dial)}
	if pins != "" {
		c.near = nearby.New(pins, log)
	}
	c.open, err = flags.Connect(ctx, client.Options{})
	if errors.Is(err, context.DeadlineExceeded) {
		c.away = err
		return c, nil
	}
	return c, err
}

// cache returns where the gateway caches.
func (c *chain) cache() *proxy.Cache {
	cache := &proxy.Cache{Chain: &c.late, Nodes: c.nodes}
	if c.open != nil {
		c.nodes.Open(c.open.Client)
		warnOpenChain(c.log, c.open.Map())
		cache.Chain, cache.ChainName = c.open.Client, chainName(c.open.Map())
	}
	if c.near != nil {
		cache.Nearby = c.near
	}
	return cache
}

// serve lets the gateway use the chain, as soon as it is reached, and its nodes on this machine, until ctx ends.
func (c *chain) serve(ctx context.Context, s *proxy.Server) error {
	if err := c.reach(ctx, s); err != nil || c.near == nil || c.open == nil {
		return err
	}
	c.near.Run(ctx, c.open.Client)
	return nil
}

// reach tries until the chain is reached, and then lets the gateway use it.
func (c *chain) reach(ctx context.Context, s *proxy.Server) error {
	if c.open != nil {
		return nil
	}
	c.log.Warn("the chain does not answer: etcd serves all requests until it does", "reason", c.away)
	for c.open == nil {
		if !retry.Sleep(ctx, chainPause) {
			return nil
		}
		var err error
		c.open, err = c.flags.Connect(ctx, client.Options{})
		if err != nil && ctx.Err() == nil {
			c.log.Debug("the chain does not answer", "reason", err)
		}
	}
	if err := s.NameChain(chainName(c.open.Map())); err != nil {
		return err
	}
	warnOpenChain(c.log, c.open.Map())
	c.late.Open(c.open.Client)
	c.nodes.Open(c.open.Client)
	c.log.Info("the chain answers: keys are cached from now on")
	return nil
}

func (c *chain) close() error {
	err := c.nodes.Close()
	if c.open == nil {
		return err
	}
	return errors.Join(err, c.open.Close())
}

// warnOpenChain logs that the certificates of etcd and of the gateway do not protect what the chain answers.
func warnOpenChain(log *slog.Logger, m *client.Map) {
	if m.Tags != wire.TagsRequired {
		log.Warn("the chain requires no tags: any host that reaches its nodes can change what this gateway's clients read",
			"to change that", "--identity here, and netcraq settings --tags")
	}
}

// chainName is the same for all gateways with this chain.
func chainName(m *client.Map) string {
	if len(m.Controllers) > 0 {
		return "cluster " + m.Cluster
	}
	h := sha256.New()
	for i := range m.Nodes {
		fmt.Fprintln(h, m.Nodes[i].Name, m.Nodes[i].Addr)
	}
	return fmt.Sprintf("chain %x of %d shards", h.Sum(nil)[:8], m.Shards())
}
