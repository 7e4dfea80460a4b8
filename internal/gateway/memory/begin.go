package memory

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Began waits until the keyspace of [Options.Begin] is there, and returns its revision and the number of its keys.
func (g *Gateway) Began(ctx context.Context) (revision, keys int64, err error) {
	for {
		a, err := (&kvServer{g: g}).Range(itself(ctx), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true})
		if err == nil || ctx.Err() != nil {
			return a.GetHeader().GetRevision(), a.GetCount(), err
		}
		pause(ctx, nil, retryEvery)
	}
}
