package controller

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
)

// Controllers implements the API. A controller that leads is in etcd's majority, and is not the one that lost its data.
func (c *Controller) Controllers(
	ctx context.Context, in *controllerv1.ControllersRequest,
) (*controllerv1.ControllersResponse, error) {
	if c.term.Load() == nil {
		return nil, c.notLeading()
	}
	if name := in.GetReplace(); name != "" {
		if err := c.store.Replace(ctx, name); err != nil {
			return nil, memberError(err)
		}
	}
	members, err := c.store.Members(ctx)
	if err != nil {
		return nil, memberError(err)
	}
	out := &controllerv1.ControllersResponse{}
	for _, m := range members {
		out.Members = append(out.Members, &controllerv1.EtcdMember{
			Name: m.Name, Peer: m.Peer, Started: m.Started, Learner: m.Learner,
		})
	}
	return out, nil
}

func memberError(err error) error {
	code := codes.Aborted
	if errors.Is(err, store.ErrUnknown) {
		code = codes.NotFound
	}
	return status.Error(code, err.Error())
}
