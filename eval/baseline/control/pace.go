package control

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// pace keeps a copy below a rate.
type pace struct {
	perSecond float64 // 0: no bound
	begin     time.Time
	done      int
}

func newPace(perSecond float64) *pace { return &pace{perSecond: perSecond, begin: time.Now()} }

// chunk is the number of entries copied in one step.
const chunk = 64

// step counts n copied objects and waits until the rate allows more.
func (p *pace) step(ctx context.Context, n int) error {
	p.done += n
	if p.perSecond <= 0 {
		return ctx.Err()
	}
	retry.Sleep(ctx, time.Until(p.begin.Add(time.Duration(float64(p.done)/p.perSecond*float64(time.Second)))))
	return ctx.Err()
}
