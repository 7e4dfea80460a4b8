// Package failpoint gets one more fault: etcd's robustness tests have the others.
package failpoint

import (
	"context"
	"math/rand"
	"testing"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/tests/v3/framework/e2e"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
)

// pause stops a member for longer than its right to read through the chain lasts, and than an election takes.
type pause struct{}

const pausedFor = 4 * time.Second

func (pause) Inject(
	ctx context.Context, _ *testing.T, _ *zap.Logger, cluster *e2e.EtcdProcessCluster, _ time.Time, _ identity.Provider,
) ([]report.ClientReport, error) {
	member := cluster.Procs[rand.Int()%len(cluster.Procs)]
	if err := member.Pause(); err != nil {
		return nil, err
	}
	select {
	case <-time.After(pausedFor):
	case <-ctx.Done():
	}
	return nil, member.Resume()
}

func (pause) Name() string { return "Pause" }

func (pause) Available(e2e.EtcdProcessClusterConfig, e2e.EtcdProcess, traffic.Profile) bool {
	return true
}
