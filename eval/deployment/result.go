package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Paper has the paper's figures: an etcd of three members on four nodes, pods from 2 to 25 and none. Its reads are of
// single keys; it reports no times of the API server.
var Paper = struct {
	Reads, Writes, Proposals float64
	HotShare                 float64 // of the reads, those of the 25 pairs that are read most, which it moves to the data plane
}{15_300, 2_900, 3_100, 0.55}

// Result compares ways in which the API server is served.
type Result struct {
	Medians  []Cycle   `json:"medians"` // one for each way; counts are medians too, each by itself
	Rounds   [][]Cycle `json:"rounds"`
	Pods     int       `json:"pods"`
	First    int       `json:"first_pods"`
	HoldS    float64   `json:"hold_s"`
	Settings []string  `json:"settings"`
}

// Settings describe the parts of the cluster.
func (o *Options) Settings() []string {
	members := "three etcd members in memory, as in the paper"
	if n := max(1, o.Cluster.Members); n != kubernetes.MostMembers {
		members = fmt.Sprintf("%d etcd members in memory (the paper: three)", n)
	}
	return []string{
		"four kubelets with containerd, in namespaces of one machine",
		members,
		"the chain's nodes run in all cases, store CPU is that of etcd's members or of the keyspace's gateways",
	}
}

// Run brings a cluster up, measures, and removes it.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	c, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := &Result{Pods: o.Pods, First: o.First, HoldS: o.Hold.Seconds(), Settings: o.Settings()}
	for round := range o.Rounds {
		cycles := make([]Cycle, len(o.Serving))
		for i := range o.Serving {
			if round%2 == 1 { // a drift of the machine's speed favours none
				i = len(o.Serving) - 1 - i
			}
			o.say("round %d of %d", round+1, o.Rounds)
			cycle, err := c.Measure(ctx, o.Serving[i])
			if err != nil {
				return nil, err
			}
			cycles[i] = *cycle
		}
		r.Rounds = append(r.Rounds, cycles)
	}
	for i := range o.Serving {
		r.Medians = append(r.Medians, r.median(i))
	}
	return r, nil
}

// median returns the medians of all values of a way.
func (r *Result) median(way int) Cycle {
	m := Cycle{Serving: r.Rounds[0][way].Serving, Requests: make(map[string]float64)}
	of := func(value func(*Cycle) float64) float64 {
		var all []float64
		for _, round := range r.Rounds {
			all = append(all, value(&round[way]))
		}
		return statistics.Median(all)
	}
	for _, round := range r.Rounds {
		for method := range round[way].Requests {
			m.Requests[method] = of(func(c *Cycle) float64 { return c.Requests[method] })
		}
	}
	for i := range m.values() {
		*m.values()[i] = of(func(c *Cycle) float64 { return *c.values()[i] })
	}
	return m
}

// values are all numbers of a cycle.
func (c *Cycle) values() []*float64 {
	return []*float64{
		&c.WindowS, &c.EtcdReads, &c.EtcdWrites, &c.Proposals, &c.ChainReads, &c.ChainShare, &c.ReadyS, &c.GoneS,
		&c.APIP50Ms, &c.APIP99Ms, &c.GetP50Ms, &c.GetP99Ms, &c.GetShare, &c.PutP50Ms, &c.PutP99Ms,
		&c.GetMeanMs, &c.GetStoreMs, &c.PutMeanMs, &c.PutStoreMs,
		&c.ListP50Ms, &c.ListP99Ms, &c.WaitP50Ms, &c.WaitP99Ms, &c.EtcdCPUS, &c.ChainCPU,
		&c.GatewayCPU, &c.APICPUS,
	}
}

// Title names a way in which the API server is served.
func Title(s kubernetes.Serving) string {
	title := map[kubernetes.Store]string{
		kubernetes.StoreEtcd: "etcd", kubernetes.StoreGateway: "gateway, no cache", kubernetes.StoreChain: "gateway and chain",
		kubernetes.StoreMember: "netcraq etcd", kubernetes.StoreKeyspace: "keyspace on disks",
	}[s.Store]
	if s.NoWatchCache {
		title += ", no watch cache"
	}
	return title
}

// Table returns a row for each way, and one for the paper.
func (r *Result) Table() ([]string, [][]string) {
	header := []string{"API server's store", "reads at etcd", "writes", "from the chain", "25 ready", "API p50", "API p99",
		"get p50", "get p99", "at the store", "update p50", "update p99", "at the store", "list p50", "list wait p50",
		"store CPU", "chain CPU", "gateway CPU"}
	header[4] = fmt.Sprintf("%d ready", r.Pods)
	var rows [][]string
	for i := range r.Medians {
		m := &r.Medians[i]
		ms := func(v float64) string { return fmt.Sprintf("%.1f ms", v) }
		s := func(v float64) string { return fmt.Sprintf("%.2f s", v) }
		of := func(part, whole float64) string { return fmt.Sprintf("%.1f of %.1f ms", part, whole) }
		rows = append(rows, []string{
			Title(m.Serving), fmt.Sprintf("%.0f", m.EtcdReads), fmt.Sprintf("%.0f", m.EtcdWrites),
			fmt.Sprintf("%.0f %%", 100*m.ChainShare), s(m.ReadyS), ms(m.APIP50Ms), ms(m.APIP99Ms), ms(m.GetP50Ms),
			ms(m.GetP99Ms), of(m.GetStoreMs, m.GetMeanMs), ms(m.PutP50Ms), ms(m.PutP99Ms), of(m.PutStoreMs, m.PutMeanMs),
			ms(m.ListP50Ms), ms(m.WaitP50Ms),
			s(m.EtcdCPUS), s(m.ChainCPU), s(m.GatewayCPU),
		})
	}
	paper := []string{"the paper", fmt.Sprintf("%.0f", Paper.Reads), fmt.Sprintf("%.0f", Paper.Writes),
		fmt.Sprintf("%.0f %%", 100*Paper.HotShare)}
	for len(paper) < len(header) {
		paper = append(paper, "-")
	}
	return header, append(rows, paper)
}

// Summary describes the experiment.
func (r *Result) Summary() string {
	return fmt.Sprintf("A Deployment of %d pods grows to %d, keeps them for %.0f s, and is scaled to none: medians of %d "+
		"rounds.\nAPI p50 and p99: all requests meanwhile but watches, by the API server's histogram. get and update: one "+
		"ConfigMap, one request after the other, afterwards; means of the requests, and of the API server's waits for its "+
		"store. list: consistent lists of pods, %d a second beside %d writes of a "+
		"ConfigMap, and the time for which the API server waited for its watch cache.\nThe paper's share: reads of the 25 "+
		"pairs that are read most. %s.", r.First, r.Pods, r.HoldS, len(r.Rounds),
		listsPerSecond, writesPerSecond, strings.Join(r.Settings, "; "))
}
