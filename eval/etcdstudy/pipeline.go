package etcdstudy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// PipelineOptions are the options of [Pipeline].
type PipelineOptions struct {
	Harness  HarnessOptions // Members and Profiles are not used. Shares of a CPU are not limited: profiles need samples
	Load     Load           // of puts
	Sizes    []int          // of clusters; none: 1 and 3
	Progress Progress       // may be nil
}

// PipelineResult says where the time of puts goes.
type PipelineResult struct {
	Settings []string `json:"settings"`
	Seed     uint64   `json:"seed"`
	// puts of the store alone, in this process: MVCC and backend, without API, Raft and WAL
	Store    float64        `json:"store_per_second"`
	Clusters []PipelineCell `json:"clusters"`
}

// PipelineCell is a cluster's part of it.
type PipelineCell struct {
	Members    int         `json:"members"`
	PerSecond  float64     `json:"per_second"` // puts
	Errors     int         `json:"errors"`
	ClientCPUs float64     `json:"client_cpus"`
	Stages     []StageCost `json:"stages"`
	Timers     []Timer     `json:"timers"`
	Latency
}

// StageCost is the CPU cost of a stage, summed over all members, by their CPU profiles.
type StageCost struct {
	Stage  Stage   `json:"stage"`
	Micros float64 `json:"cpu_us_per_put"`
	Part   float64 `json:"part"` // of all stages, 0 to 1
}

// Timer is one of etcd's own histograms, of all members together.
type Timer struct {
	Name      string  `json:"name"`
	Metric    string  `json:"metric"`
	PerPut    float64 `json:"per_put"` // how often
	MeanMs    float64 `json:"mean_ms"`
	MsPerPut  float64 `json:"ms_per_put"`
	PerSecond float64 `json:"per_second"`
}

// timers are the histograms that show the way of a put.
var timers = []struct{ name, metric string }{
	{"WAL: write", "etcd_disk_wal_write_duration_seconds"},
	{"WAL: fsync", "etcd_disk_wal_fsync_duration_seconds"},
	{"MVCC: apply", "etcd_server_apply_duration_seconds"},
	{"backend: commit", "etcd_disk_backend_commit_duration_seconds"},
}

// putMetric counts puts, at every member.
const putMetric = "etcd_mvcc_put_total"

// keySpace is how many keys are put.
const keySpace = 1000

// Pipeline measures puts to clusters and looks into their members meanwhile.
func Pipeline(ctx context.Context, o PipelineOptions) (*PipelineResult, error) {
	o.Load = o.Load.withDefaults()
	if err := o.Load.validate(); err != nil {
		return nil, err
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int{1, 3}
	}
	result := &PipelineResult{Seed: o.Load.Seed}
	o.Progress.say("the store alone")
	var err error
	if result.Store, err = storeAlone(ctx, o.Load); err != nil {
		return nil, err
	}
	for _, size := range o.Sizes {
		o.Progress.say("%d members", size)
		cell, settings, err := o.measure(ctx, size)
		if err != nil {
			return nil, fmt.Errorf("%d members: %w", size, err)
		}
		result.Clusters, result.Settings = append(result.Clusters, *cell), settings
	}
	return result, nil
}

func (o *PipelineOptions) measure(ctx context.Context, size int) (cell *PipelineCell, settings []string, err error) {
	harness := o.Harness
	harness.Members, harness.Profiles, harness.Unlimited = size, true, true
	r, err := OpenHarness(ctx, harness)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	cell, err = r.profilePuts(ctx, o.Load)
	return cell, r.Settings[1:], err
}

// profilePuts measures puts while the members are profiled.
func (r *Harness) profilePuts(ctx context.Context, l Load) (*PipelineCell, error) {
	endpoints := r.cluster.Endpoints()
	var before, after metrics
	var costs map[Stage]time.Duration
	profiled := make(chan error, 1)
	loop, err := runClosed(ctx, putters(r.conns, l), 1, l.Duration,
		func() (err error) {
			before, err = scrape(ctx, endpoints)
			go func() {
				var err error
				costs, err = cpuProfiles(ctx, endpoints, l.Duration)
				profiled <- err
			}()
			return err
		},
		func() (err error) {
			after, err = scrape(ctx, endpoints)
			return errors.Join(err, <-profiled)
		})
	if err != nil {
		return nil, err
	}
	cell := &PipelineCell{
		Members:    len(endpoints),
		PerSecond:  loop.perSecond(0),
		Errors:     loop.errors,
		ClientCPUs: loop.cpus,
		Latency:    loop.Latency,
	}
	cell.Stages = stageCosts(costs, cell.PerSecond*float64(profileSeconds(l.Duration)))
	puts := after.since(before, putMetric).sum / float64(len(endpoints))
	for _, t := range timers {
		cell.Timers = append(cell.Timers,
			newTimer(t.name, t.metric, after.since(before, t.metric), puts, cell.PerSecond))
	}
	return cell, nil
}

// stageCosts puts the stages in order.
func stageCosts(costs map[Stage]time.Duration, puts float64) []StageCost {
	var total time.Duration
	for _, cost := range costs {
		total += cost
	}
	all := make([]StageCost, len(Stages))
	for i, stage := range Stages {
		all[i] = StageCost{Stage: stage, Micros: float64(costs[stage].Microseconds()) / max(1, puts)}
		if total > 0 {
			all[i].Part = float64(costs[stage]) / float64(total)
		}
	}
	return all
}

// newTimer relates a histogram to the puts that members counted between the same two looks, which
// may be further apart than the measurement is long.
func newTimer(name, of string, m metric, puts, perSecond float64) Timer {
	puts = max(1, puts)
	return Timer{
		Name:      name,
		Metric:    of,
		PerPut:    m.count / puts,
		MeanMs:    1000 * m.sum / max(1, m.count),
		MsPerPut:  1000 * m.sum / puts,
		PerSecond: m.count / puts * perSecond,
	}
}

// keys makes the names of a key space, all of one length.
func keys(count, bytes int) []string {
	all := make([]string, count)
	for i := range all {
		name := fmt.Sprintf("%08d", i)
		all[i] = name + strings.Repeat("k", max(0, bytes-len(name)))
	}
	return all
}

// putters are clients that put keys at random.
func putters(conns []*clientv3.Client, l Load) []operation {
	names, value := keys(keySpace, l.KeyBytes), strings.Repeat("v", l.ValueBytes)
	clients := make([]operation, l.Clients)
	for i := range clients {
		conn, random := conns[i%len(conns)], rand.New(rand.NewPCG(l.Seed, uint64(i)))
		clients[i] = func(ctx context.Context) (int, error) {
			_, err := conn.Put(ctx, names[random.IntN(len(names))], value)
			return 0, err
		}
	}
	return clients
}
