package etcdstudy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	dto "github.com/prometheus/client_model/go"
)

func TestStacksBelongToTheInnermostStage(t *testing.T) {
	const etcd = "go.etcd.io/etcd/server/v3/"
	for want, stacks := range map[Stage][]string{
		StageWAL: {
			"syscall.Syscall,os.(*File).Write," + etcd + "storage/wal.(*WAL).Save," + etcd + "storage.(*storage).Save," +
				etcd + "etcdserver.(*raftNode).start.func1",
		},
		StageRaft: {
			"runtime.mallocgc,go.etcd.io/raft/v3.(*raft).Step,go.etcd.io/raft/v3.(*node).run",
			"net/http.(*body).Read," + etcd + "etcdserver/api/rafthttp.(*streamReader).decodeLoop",
			etcd + "storage.(*storage).Save",
			"runtime.chansend," + etcd + "etcdserver.(*raftNode).start.func1",
		},
		StageMVCC: {
			"runtime.memmove," + etcd + "storage/mvcc.(*storeTxnWrite).put," + etcd + "etcdserver/apply.(*applierV3backend).Put",
			"runtime.chanrecv," + etcd + "etcdserver.(*EtcdServer).applyEntryNormal",
		},
		StageBackend: {"go.etcd.io/bbolt.(*node).spill," + etcd + "storage/backend.(*batchTx).commit," + etcd +
			"storage/mvcc.(*store).Put"},
		StageAPI: {
			etcd + "etcdserver.(*EtcdServer).Put," + etcd +
				"etcdserver/api/v3rpc.(*kvServer).Put,google.golang.org/grpc.(*Server).processUnaryRPC",
			"syscall.Syscall,internal/poll.(*FD).Write,google.golang.org/grpc/internal/transport.(*loopyWriter).run",
		},
		StageRuntime: {"runtime.findRunnable,runtime.schedule,runtime.mcall", "runtime.gcDrain,runtime.gcBgMarkWorker", ""},
	} {
		for _, stack := range stacks {
			if got := stageOf(strings.Split(stack, ",")); got != want {
				t.Errorf("%s: %s, not %s", stack, got, want)
			}
		}
	}
}

func TestSamplesAreAddedUpByStage(t *testing.T) {
	sample := func(ms int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, ms * 1e6}}
		for _, name := range names {
			s.Location = append(s.Location,
				&profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	got := byStage(&profile.Profile{Sample: []*profile.Sample{
		sample(10, "runtime.mallocgc",
			"go.etcd.io/raft/v3.(*raft).Step"), sample(20, "go.etcd.io/raft/v3.(*node).run"), sample(40, "runtime.mcall"),
	}})
	if got[StageRaft] != 30*time.Millisecond || got[StageRuntime] != 40*time.Millisecond || len(got) != 2 {
		t.Errorf("%v", got)
	}
	costs := stageCosts(got, 10)
	if costs[1].Micros != 3000 || math.Abs(costs[1].Part-3.0/7) > 1e-9 || costs[0].Micros != 0 ||
		len(costs) != len(Stages) {
		t.Errorf("%+v", costs)
	}
}

func TestMetricsAreAddedUp(t *testing.T) {
	all := make(metrics)
	count, sum, value := uint64(3), 0.5, 7.0
	family := &dto.MetricFamily{Metric: []*dto.Metric{
		{
			Histogram: &dto.Histogram{SampleCount: &count, SampleSum: &sum},
		}, {Histogram: &dto.Histogram{SampleCount: &count, SampleSum: &sum}}, {Counter: &dto.Counter{Value: &value}},
	}}
	all.add("a", family)
	if got := all.since(metrics{"a": {2, 1}}, "a"); got != (metric{4, 7}) {
		t.Errorf("%+v", got)
	}
}

func TestAPutIsFollowedThroughEtcd(t *testing.T) {
	l := smallLoad
	l.Duration = time.Second
	needServer(t)
	result, err := Pipeline(t.Context(), PipelineOptions{Harness: HarnessOptions{Conns: 4}, Load: l, Sizes: []int{3}})
	if err != nil {
		t.Fatal(err)
	}
	cell := result.Clusters[0]
	parts := 0.0
	for _, stage := range cell.Stages {
		parts += stage.Part
	}
	if cell.PerSecond <= 0 || cell.Errors != 0 || math.Abs(parts-1) > 1e-6 || result.Store <= cell.PerSecond {
		t.Errorf("%+v", result)
	}
	for _, timer := range cell.Timers {
		if timer.PerSecond <= 0 || timer.MeanMs <= 0 || timer.Name == "MVCC: apply" && math.Abs(timer.PerPut-3) > 0.5 {
			t.Errorf("%+v", timer)
		}
	}
}
