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
	etcd, gateway, api page
	cpu                map[string]time.Duration // by program
	at                 time.Time
}

// Names of programs in a [Cycle].
const (
	cpuEtcd    = "etcd"
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
	if r.etcd, err = readPage(ctx, c.control, kubernetes.EtcdURL+"/metrics"); err != nil {
		return r, err
	}
	processes, err := kubernetes.ProcessesOf(c.o.Cluster.Name)
	if err != nil {
		return r, err
	}
	r.cpu, r.at = make(map[string]time.Duration), time.Now()
	for name, pid := range map[string]int{cpuEtcd: processes.Etcd, cpuGateway: processes.Gateway, cpuAPI: processes.API} {
		if r.cpu[name], err = cputime.Of(pid); err != nil {
			return r, err
		}
	}
	return r, nil
}

// hits are reads that the chain answered.
func (r *reading) hits() float64 { return r.gateway.counts(gatewaycheck.HitsMetric, "")[""] }

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
		ChainReads: r.hits() - before.hits(),
		EtcdCPUS:   (r.cpu[cpuEtcd] - before.cpu[cpuEtcd]).Seconds(),
		GatewayCPU: (r.cpu[cpuGateway] - before.cpu[cpuGateway]).Seconds(),
		APICPUS:    (r.cpu[cpuAPI] - before.cpu[cpuAPI]).Seconds(),
	}
	c.EtcdReads = c.Requests[methodRange]
	c.EtcdWrites = c.Requests[methodTxn] + c.Requests[methodPut] + c.Requests[methodDelete]
	const proposals = "etcd_server_proposals_committed_total"
	c.Proposals = gauge(r.etcd, proposals) - gauge(before.etcd, proposals)
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
