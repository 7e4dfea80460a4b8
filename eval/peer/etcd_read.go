package peer

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// EtcdRead reads one key of an etcd of one member, linearizably.
type EtcdRead struct {
	cluster *etcd.Cluster
	client  *clientv3.Client
	value   string
}

// StartEtcdRead starts the member at a site, with its data in memory, and writes the key. The client is in the network
// namespace at a path. The error is [etcd.ErrMissing] if etcd is not installed.
func StartEtcdRead(ctx context.Context, server etcd.Site, client string, value []byte) (*EtcdRead, error) {
	binary, err := etcd.Find()
	if err != nil {
		return nil, err
	}
	c, err := etcd.Start(ctx, etcd.Options{Binary: binary, Members: 1, Sites: []etcd.Site{server}})
	if err != nil {
		return nil, err
	}
	r := &EtcdRead{cluster: c, value: string(value)}
	r.client, err = clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: etcdDial, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(thread.DialIn(client))}})
	if err == nil {
		_, err = r.client.Put(ctx, etcdReadKey, r.value)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

const etcdReadKey = "key"

// Read reads the key once.
func (r *EtcdRead) Read(ctx context.Context) error {
	answer, err := r.client.Get(ctx, etcdReadKey)
	if err != nil {
		return err
	}
	if len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != r.value {
		return fmt.Errorf("etcd's answer is %v, not the value that was written", answer.Kvs)
	}
	return nil
}

// Close ends the client and the member.
func (r *EtcdRead) Close() error {
	if r.client != nil {
		r.client.Close() // its error only reports that the connection is gone
	}
	return r.cluster.Stop()
}
