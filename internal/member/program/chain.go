package program

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/node/nearby"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

// firstPause and longestPause bound the pause between two tries to reach the chain. Each of them lets gRPC log some lines.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 15 * time.Second
)

// chain is a server's connection to its chain. The server serves before the chain is reached.
type chain struct {
	options connect.Options
	log     *slog.Logger
	late    objects.Late
	near    *nearby.Reads // nil: all reads use the network
}

func newChain(o connect.Options, pins string, log *slog.Logger) *chain {
	c := &chain{options: o, log: log}
	if pins != "" {
		c.near = nearby.New(pins, log)
	}
	return c
}

// nearby returns the nodes on this machine; nil: none are used.
func (c *chain) nearby() objects.Nearby {
	if c.near == nil {
		return nil
	}
	return c.near
}

// run reaches the chain, and follows it until ctx ends.
func (c *chain) run(ctx context.Context) {
	told := ""
	for pauses := retry.Between(firstPause, longestPause); ; {
		open, err := connect.Open(ctx, c.options)
		if err == nil {
			c.use(ctx, open)
			return
		}
		if text := err.Error(); ctx.Err() == nil && text != told {
			told = text
			c.log.Warn("the chain does not answer: etcd serves all requests until it does", "reason", text)
		}
		if !pauses.Wait(ctx) {
			return
		}
	}
}

func (c *chain) use(ctx context.Context, open *connect.Client) {
	if open.Map().Tags != wire.TagsRequired {
		c.log.Warn("the chain requires no tags: any host that reaches its nodes can change what this server's clients read",
			"to change that", "--chain-identity here, and netcraq settings --tags")
	}
	c.late.Open(open.Client)
	c.log.Info("the chain answers")
	if c.near != nil {
		c.near.Run(ctx, open.Client)
	}
	<-ctx.Done()
	if err := open.Close(); err != nil && !errors.Is(err, client.ErrClosed) {
		c.log.Debug("the chain's client", "reason", err)
	}
}
