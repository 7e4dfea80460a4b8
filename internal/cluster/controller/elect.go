package controller

import (
	"context"
	"errors"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
)

// claimAgain is how long after a failed attempt to lead the next one comes.
const claimAgain = 50 * time.Millisecond

// stand stands for election until ctx ends, and leads whenever elected.
func (c *Controller) stand(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.view.until(ctx, c.view.counts); err != nil {
			return nil
		}
		led, news := c.view.led()
		if !c.vacant(ctx, led, news) {
			continue
		}
		l, err := c.store.Claim(ctx, led.Term, c.options.Address)
		if err == nil {
			c.lead(ctx, l)
			continue
		}
		if !errors.Is(err, store.ErrTaken) && ctx.Err() == nil {
			c.log.Debug("no leader yet", "because", err)
		}
		select { // the name of the new leader may be on its way
		case <-news:
		case <-ctx.Done():
		case <-time.After(claimAgain):
		}
	}
	return nil
}

// vacant reports whether the place of a leader can be taken. It waits for news, for the leader's process to end, or for ctx.
func (c *Controller) vacant(ctx context.Context, led store.Leader, news <-chan struct{}) bool {
	p := c.peers.get(led.Address)
	switch {
	case led.Term == 0:
		return true
	case led.Address == c.options.Address: // an earlier process of this controller; or a claim whose answer was lost
		return true
	case p == nil: // not one of this cluster's: its lease in etcd runs out
		select {
		case <-news:
		case <-ctx.Done():
		}
		return false
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-watch.Done():
				return
			case <-news:
			}
			var now store.Leader
			if now, news = c.view.led(); now != led {
				cancel()
			}
		}
	}()
	return p.gone(watch)
}
