package etcdkeyspace

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/eval/etcdgateway"
)

// Beside is mem_etcd, which has one process, filled as a keyspace was.
type Beside struct {
	ResidentRatio float64 `json:"resident_ratio"`
	ResidentBytes int64   `json:"resident_bytes"` // after a compaction
	FillSeconds   float64 `json:"fill_seconds"`
	PutCPU        float64 `json:"put_cpu_us"` // for each put
}

// fillBeside fills mem_etcd, which syncs its log as gateways do.
func (o *FillOptions) fillBeside(ctx context.Context, own *Filled) (*Beside, error) {
	metrics, err := etcdgateway.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := etcdgateway.StartProcess(ctx, func(listen string) []string {
		return []string{o.Beside, "--port", portOf(listen), "--metrics-port", portOf(metrics), "--wal-dir", filepath.Join(o.Dir, "beside"),
			"--wal-default", "fsync"}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Beside, err)
	}
	defer p.Kill()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + p.Address()}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // its calls have ended
	b, other := new(Beside), &Filled{Keys: own.Keys}
	b.FillSeconds, b.PutCPU, err = o.timed(ctx, c, other, func() (time.Duration, error) { return cputime.Of(p.PID()) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Beside, err)
	}
	own.Unknown += other.Unknown
	resident, err := settled(ctx, p.PID())
	if err != nil {
		return nil, err
	}
	b.ResidentBytes = resident[0]
	b.ResidentRatio = float64(b.ResidentBytes) / float64(own.StoredBytes)
	return b, nil
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // it has one
	return port
}
