package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

// remindEvery is how often a node that waits for its cluster says so.
const remindEvery = 10 * time.Second

// Ask asks the controllers for the settings of a node's data plane, until one answers. It fails if one refuses the node, or
// if they belong to another cluster than the node.
func (j *Join) Ask(ctx context.Context, name, addr, api string, log *slog.Logger) (Identity, error) {
	registration := j.registration(j.Identity, name, addr, api)
	var before string
	var said time.Time
	for pauses := retry.Between(redialMin, redialMax); ; {
		var troubles []string
		for _, controller := range j.Controllers {
			id, err := j.askOne(ctx, controller, registration)
			var refused refusedError
			switch {
			case err == nil:
				return id, nil
			case ctx.Err() != nil:
				return id, ctx.Err()
			case errors.As(err, &refused):
				return id, fmt.Errorf("controller %s refuses this node: %w", controller, err)
			}
			troubles = append(troubles, controller+": "+callerror.Text(err))
		}
		if text := strings.Join(troubles, "; "); text != before || time.Since(said) > remindEvery {
			before, said = text, time.Now()
			log.Warn("waiting for a controller", "node", name, "error", text)
		}
		if !pauses.Wait(ctx) {
			return Identity{}, ctx.Err()
		}
	}
}

func (j *Join) askOne(ctx context.Context, controller string, registration *controllerv1.Hello) (Identity, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id := j.Identity
	client, conn, err := dialController(controller, j.DialOptions)
	if err != nil {
		return id, err
	}
	defer conn.Close()
	_, welcome, err := greet(ctx, client, registration)
	if err != nil {
		return id, err
	}
	switch {
	case id.Cluster != "" && id.Cluster != welcome.GetCluster():
		return id, refusedError{fmt.Sprintf("it is one of cluster %s, and this node belongs to %s", welcome.GetCluster(), id.Cluster)}
	case welcome.GetShards() == 0 || welcome.GetShards() > wire.MaxShards:
		return id, fmt.Errorf("the controller speaks of %d shards: is it of another version?", welcome.GetShards())
	}
	id.Cluster, id.Shards, id.CellBytes = welcome.GetCluster(), int(welcome.GetShards()), int(welcome.GetCellBytes())
	if !id.Kept || welcome.GetTagsSince() >= id.TagsSince {
		id.Tags, id.TagsSince = wire.Tags(welcome.GetTagPhase()), welcome.GetTagsSince()
	}
	return id, nil
}
