package papers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/netcraq/netcraq/eval/deployment"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Metrics of the figure.
const (
	etcdReads  = "etcd_reads"
	etcdWrites = "etcd_writes"
	chainShare = "chain_share_percent"
	podsReadyS = "pods_ready_s"
	apiGetMs   = "api_get_p50_ms"
	apiGet99Ms = "api_get_p99_ms"
	apiPutMs   = "api_update_p50_ms"
	etcdCPUS   = "etcd_cpu_s"
)

// Series of the figure.
const (
	plainGateway = "gateway without cache"
	plainEtcd    = "etcd"
	ourMember    = "netcraq etcd"
)

// kubernetesStores are the series' ways of serving the API server.
var kubernetesStores = map[string]kubernetes.Store{
	ourMember: kubernetes.StoreMember, ours: kubernetes.StoreChain, plainGateway: kubernetes.StoreGateway, plainEtcd: kubernetes.StoreEtcd,
}

func kubernetesPods(tools Tools) *figure.Spec {
	bars := func(title, metric, label, unit string) figure.Panel {
		return figure.Panel{Title: title, Metric: metric, Bars: true, Label: label, Unit: unit}
	}
	return &figure.Spec{
		Name: "kubernetes-pods", Title: "Kubernetes: a Deployment grows from 2 to 25 pods and is removed",
		Source: figure.Source{
			Paper: "NetCRAQ for Kubernetes, the workload of its analysis",
			Reports: "15,300 reads of single keys and 2,900 writes reach an etcd of three members, with 3,100 proposals. " +
				"55 % of the reads are of 25 pairs, which the paper moves to the data plane. It gives no times of the API server.",
		},
		X: figure.Axis{Label: "API server", Names: []string{"with watch cache", "without"}},
		Panels: []figure.Panel{
			bars("reads at etcd", etcdReads, "requests", "requests"),
			bars("writes at etcd", etcdWrites, "requests", "requests"),
			bars("reads answered by the chain", chainShare, "%", "%"),
			bars("from 2 to 25 ready pods", podsReadyS, "s", "s"),
			bars("read of an object, p50", apiGetMs, "ms", "ms"),
			bars("update of an object, p50", apiPutMs, "ms", "ms"),
		},
		Rows: 2,
		Series: []figure.Series{
			{Name: ours, Role: plot.Ours}, {Name: plainGateway, Role: plot.Ours, Variant: 1},
			{Name: ourMember, Role: plot.Ours, Variant: 2}, {Name: plainEtcd, Role: plot.Peer},
		},
		Needs: figure.Needs{Root: true, CPUs: 2, Made: "make kubernetes"},
		Quick: figure.Plan{Xs: figure.Counting(1), Rounds: 1, Window: 2 * time.Second, Budget: 240 * time.Second},
		Full:  figure.Plan{Xs: figure.Counting(2), Rounds: 3, Window: 10 * time.Second, Budget: 1500 * time.Second},
		Open: func(ctx context.Context, env figure.Env) (figure.Harness, error) {
			return openKubernetesPods(ctx, tools, env)
		},

		Results: kubernetesPodsResults, Notes: kubernetesPodsNotes,
	}
}

func openKubernetesPods(ctx context.Context, tools Tools, env figure.Env) (figure.Harness, error) {
	if tools.Kubernetes == nil {
		return nil, errors.New("there is nothing to make a cluster of Kubernetes with")
	}
	o := deployment.Defaults()
	var err error
	if o.Cluster, err = tools.Kubernetes(); err != nil {
		return nil, err
	}
	o.Progress, o.Hold, o.Cluster.Members = env.Say, env.Plan.Window, kubernetes.MostMembers
	o.Lists = 0
	cluster, err := deployment.Open(ctx, o)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &figure.Unable{Why: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	r := &harness{close: func() { _ = cluster.Close() }} // `lab kubernetes down` removes what is left
	r.note(o.Settings())
	r.note([]string{fmt.Sprintf("25 pods run for %v; the latency is that of %d requests, one after the other, afterwards",
		o.Hold, o.Requests)})
	r.measure = func(ctx context.Context, cell figure.Cell, _ time.Duration) (figure.Sample, error) {
		c, err := cluster.Measure(ctx, kubernetes.Serving{Store: kubernetesStores[cell.Series], NoWatchCache: cell.X > 0})
		if err != nil {
			return figure.Sample{}, err
		}
		v := map[string]float64{
			etcdReads: c.EtcdReads, etcdWrites: c.EtcdWrites, podsReadyS: c.ReadyS, etcdCPUS: c.EtcdCPUS,
			apiGetMs: c.GetP50Ms, apiGet99Ms: c.GetP99Ms, apiPutMs: c.PutP50Ms, "api_update_p99_ms": c.PutP99Ms,
			"api_p50_ms": c.APIP50Ms, "api_p99_ms": c.APIP99Ms, "proposals": c.Proposals, "gateway_cpu_s": c.GatewayCPU,
		}
		if cell.Series == ours || cell.Series == ourMember {
			v[chainShare] = 100 * c.ChainShare
		}
		return values(v), nil
	}
	return r, nil
}

func kubernetesPodsResults(o *figure.Outcome) []figure.Result {
	paper := map[string]float64{
		etcdReads: deployment.Paper.Reads, etcdWrites: deployment.Paper.Writes, chainShare: 100 * deployment.Paper.HotShare,
	}
	var all []figure.Result
	for _, x := range o.Xs {
		for _, m := range []struct{ metric, text, unit string }{
			{etcdReads, "reads at etcd", "requests"}, {etcdWrites, "writes at etcd", "requests"},
			{chainShare, "reads answered by the chain (paper: of 25 pairs)", "%"}, {podsReadyS, "from 2 to 25 ready pods", "s"},
			{apiGetMs, "read of an object by the API server, p50", "ms"}, {apiGet99Ms, "the same, p99", "ms"},
			{apiPutMs, "update of an object, p50", "ms"}, {etcdCPUS, "CPU time of etcd", "s"},
		} {
			result := figure.Result{
				Metric: fmt.Sprintf("%s, API server %s", m.text, o.Spec.X.Place(x)), Unit: m.unit,
				Values: figure.Values{figure.Ours: o.Median(ours, x, m.metric), figure.Peer: o.Median(plainEtcd, x, m.metric)},
			}
			if reported, ok := paper[m.metric]; ok {
				result.Values[figure.Paper] = &reported
			}
			all = append(all, result)
		}
	}
	return all
}

func kubernetesPodsNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, x := range o.Xs {
		place := o.Spec.X.Place(x)
		reads, writes := o.Median(plainEtcd, x, etcdReads), o.Median(plainEtcd, x, etcdWrites)
		if reads != nil && writes != nil {
			notes = append(notes, say(verdict(*reads > *writes), "kubernetes-mix", facts{
				"Place": place, "Reads": *reads, "Writes": *writes,
			}))
		}
		if share := o.Median(ours, x, chainShare); share != nil {
			notes = append(notes, say(verdict(*share >= 100*deployment.Paper.HotShare), "kubernetes-share", facts{
				"Place": place, "Percent": *share,
			}))
		}
		if ratio := figure.Ratio(o.Median(ours, x, apiGetMs), o.Median(plainEtcd, x, apiGetMs)); ratio != nil {
			notes = append(notes, say(figure.Remark, "kubernetes-read", facts{"Place": place, "Times": *ratio}))
		}
	}
	return append(notes, say(figure.Remark, "kubernetes-why", nil))
}
