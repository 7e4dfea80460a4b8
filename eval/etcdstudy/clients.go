package etcdstudy

import (
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const dialTimeout = 10 * time.Second

// dial opens connections, each to one member, in turn: so does etcd's benchmark.
func dial(endpoints []string, count int) ([]*clientv3.Client, error) {
	var all []*clientv3.Client
	for i := range count {
		c, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{endpoints[i%len(endpoints)]},
			DialTimeout: dialTimeout,
			Logger:      zap.NewNop(), // errors are counted
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to etcd: %w", err), hangUp(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func hangUp(all []*clientv3.Client) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
