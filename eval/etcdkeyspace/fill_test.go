package etcdkeyspace

import (
	"errors"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// A fill goes on after answers that were lost, and counts them. A compaction whose answer was lost is one all the same.
func TestLostAnswers(t *testing.T) {
	var unknown atomic.Int64
	calls := 0
	err := repeat(t.Context(), &unknown, func() error {
		if calls++; calls < 3 {
			return errors.New("the answer is lost")
		}
		return nil
	})
	if err != nil || calls != 3 || unknown.Load() != 2 {
		t.Errorf("%d calls, %d unknown: %v", calls, unknown.Load(), err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{etcdtest.Start(t, 1, nil).Members[0].ClientURL()}, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	both := []clientv3.Op{clientv3.OpPut("k", "v"), clientv3.OpPut("l", "v")}
	for _, puts := range [][]clientv3.Op{both[:1], both} {
		if err := putAll(t.Context(), c, puts, &unknown); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := compact(t.Context(), c, &unknown); err != nil {
			t.Error(err)
		}
	}
}
