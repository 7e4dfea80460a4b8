package agent

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/wire"
)

// MaxUses is how many keys a request for uses names at most.
const MaxUses = 4096

// Uses asks an agent how often its node read and wrote the objects of at most [MaxUses] keys. The answers are in their
// order.
func Uses(ctx context.Context, agent agentv1.AgentClient, keys []wire.Key) ([]*agentv1.ObjectUses, error) {
	in := &agentv1.UsesRequest{Keys: make([][]byte, len(keys))}
	for i, key := range keys {
		in.Keys[i] = bytesOf(key)
	}
	out, err := agent.Uses(ctx, in)
	if err != nil {
		return nil, err
	}
	if n := len(out.GetObjects()); n != len(keys) {
		return nil, fmt.Errorf("%d answers to %d keys", n, len(keys))
	}
	return out.GetObjects(), nil
}

func (s *service) Uses(ctx context.Context, in *agentv1.UsesRequest) (*agentv1.UsesResponse, error) {
	if n := len(in.GetKeys()); n > MaxUses {
		return nil, status.Errorf(codes.InvalidArgument, "%d keys are too many: ask for %d at a time", n, MaxUses)
	}
	out := &agentv1.UsesResponse{Objects: make([]*agentv1.ObjectUses, len(in.GetKeys()))}
	for i, bytes := range in.GetKeys() {
		if ctx.Err() != nil { // nobody waits any more
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if len(bytes) != keyBytes {
			return nil, status.Errorf(codes.InvalidArgument, "a key of %d bytes: want %d", len(bytes), keyBytes)
		}
		object, found, err := s.plane.Object(keyOf(bytes))
		if err != nil {
			return nil, statusOf(err)
		}
		out.Objects[i] = &agentv1.ObjectUses{
			Found: found, Reads: object.Reads, Writes: object.Writes, ValueBytes: uint32(len(object.Value)),
		}
	}
	return out, nil
}
