package deployment

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// reading has the counters and CPU times of the control machine's programs at one moment.
type reading struct {
	gateway, api page
	etcd         page                     // of all members
	proposals    float64                  // that the members know, the highest number
	cpu          map[string]time.Duration // by program
	at           time.Time
}

// Names of programs in a [Cycle].
const (
	cpuEtcd    = "etcd"
	cpuChain   = "chain"
	cpuGateway = "gateway"
	cpuAPI     = "api"
)

// read reads all counters, those of the API server first: the requests for them reach no store.
func (c *Cluster) read(ctx context.Context) (r reading, err error) {
	metrics, err := c.api.Stream(ctx, "GET", "/metrics", "", nil)
	if err != nil {
		return r, err
	}
	defer metrics.Close()
	if r.api, err = parsePage(metrics); err != nil {
		return r, err
	}
	if r.gateway, err = readPage(ctx, c.control, kubernetes.GatewayURL+"/proxy/metrics"); err != nil {
		return r, err
	}
	r.etcd = make(page)
	for _, url := range c.o.Cluster.EtcdURLs() {
		member, err := readPage(ctx, c.control, url+"/metrics")
		if err != nil {
			return r, err
		}
		r.proposals = max(r.proposals, gauge(member, "etcd_server_proposals_committed_total"))
		r.etcd.add(member)
	}
	processes, err := kubernetes.ProcessesOf(c.o.Cluster.Name)
	if err != nil {
		return r, err
	}
	r.cpu, r.at = make(map[string]time.Duration), time.Now()
	for name, pids := range map[string][]int{
		cpuEtcd: processes.Etcd, cpuChain: processes.Chain, cpuGateway: {processes.Gateway}, cpuAPI: {processes.API},
	} {
		for _, pid := range pids {
			took, err := cputime.Of(pid)
			if err != nil {
				return r, err
			}
			r.cpu[name] += took
		}
	}
	return r, nil
}

// hits are reads that the gateway answered from the chain.
func (r *reading) hits() float64 { return r.gateway.counts(gatewaycheck.HitsMetric, "")[""] }

// fast are reads that etcd's members answered through the chain.
func (r *reading) fast() float64 { return r.etcd.counts("netcraq_member_fast_reads_total", "")[""] }

// chainReads are reads for which etcd's members asked one another nothing.
func (r *reading) chainReads() float64 { return r.hits() + r.fast() }

// Methods of etcd's API, as it counts them.
const (
	methodRange  = "Range"
	methodTxn    = "Txn"
	methodPut    = "Put"
	methodDelete = "DeleteRange"
)

func (r *reading) requests() map[string]float64 {
	return r.etcd.counts("grpc_server_handled_total", "grpc_method")
}

// cycle returns the difference of two readings.
func (r *reading) cycle(before *reading) Cycle {
	c := Cycle{
		WindowS:    r.at.Sub(before.at).Seconds(),
		Requests:   difference(r.requests(), before.requests()),
		ChainReads: r.chainReads() - before.chainReads(),
		EtcdCPUS:   (r.cpu[cpuEtcd] - before.cpu[cpuEtcd]).Seconds(),
		ChainCPU:   (r.cpu[cpuChain] - before.cpu[cpuChain]).Seconds(),
		GatewayCPU: (r.cpu[cpuGateway] - before.cpu[cpuGateway]).Seconds(),
		APICPUS:    (r.cpu[cpuAPI] - before.cpu[cpuAPI]).Seconds(),
	}
	c.EtcdReads = max(0, c.Requests[methodRange]-(r.fast()-before.fast()))
	c.EtcdWrites = c.Requests[methodTxn] + c.Requests[methodPut] + c.Requests[methodDelete]
	c.Proposals = r.proposals - before.proposals
	if reads := c.EtcdReads + c.ChainReads; reads > 0 {
		c.ChainShare = c.ChainReads / reads
	}
	const durations, milliseconds = "apiserver_request_duration_seconds", 1000
	waits := []string{"WATCH", "CONNECT"} // end when their client wants
	took := r.api.histogram(durations, "verb", waits...).since(before.api.histogram(durations, "verb", waits...))
	c.APIP50Ms, c.APIP99Ms = took.quantile(0.5)*milliseconds, took.quantile(0.99)*milliseconds
	return c
}

func gauge(p page, name string) (sum float64) {
	for _, m := range p[name].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}
