package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Cycle has the measurements of one growth and removal of the Deployment, and of single requests afterwards.
type Cycle struct {
	kubernetes.Serving
	WindowS    float64            `json:"window_s"`
	Requests   map[string]float64 `json:"etcd_requests"` // that etcd answered, by method
	EtcdReads  float64            `json:"etcd_reads"`    // without those that members answered through the chain
	EtcdWrites float64            `json:"etcd_writes"`
	Proposals  float64            `json:"etcd_proposals"` // of Raft: writes, and leases
	ChainReads float64            `json:"chain_reads"`    // that the chain answered
	ChainShare float64            `json:"chain_share"`    // of all reads
	ReadyS     float64            `json:"ready_s"`        // from the request for 25 pods until all are ready
	GoneS      float64            `json:"gone_s"`         // from the request for none until all are gone
	APIP50Ms   float64            `json:"api_p50_ms"`     // all requests but watches, by the API server's histogram
	APIP99Ms   float64            `json:"api_p99_ms"`
	GetP50Ms   float64            `json:"get_p50_ms"` // of one ConfigMap, one request after the other
	GetP99Ms   float64            `json:"get_p99_ms"`
	GetShare   float64            `json:"get_chain_share"` // of these reads, those that the chain answered
	GetMeanMs  float64            `json:"get_mean_ms"`
	GetStoreMs float64            `json:"get_store_mean_ms"` // that the API server waited for its store
	PutP50Ms   float64            `json:"update_p50_ms"`
	PutP99Ms   float64            `json:"update_p99_ms"`
	PutMeanMs  float64            `json:"update_mean_ms"`
	PutStoreMs float64            `json:"update_store_mean_ms"`
	ListP50Ms  float64            `json:"list_p50_ms"` // of all pods, consistent, while other objects are written
	ListP99Ms  float64            `json:"list_p99_ms"`
	WaitP50Ms  float64            `json:"list_wait_p50_ms"` // for the watch cache, by the API server's histogram
	WaitP99Ms  float64            `json:"list_wait_p99_ms"`
	EtcdCPUS   float64            `json:"etcd_cpu_s"`  // or that of the keyspace's gateways
	ChainCPU   float64            `json:"chain_cpu_s"` // of its nodes and controllers
	GatewayCPU float64            `json:"gateway_cpu_s"`
	APICPUS    float64            `json:"api_cpu_s"`
}

const (
	name        = "experiment"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	pods        = "/api/v1/namespaces/default/pods?labelSelector=app%3D" + name
	jsonKind    = "application/json"
	mergeKind   = "application/merge-patch+json"
	// settle is the pause before the first reading, so that the start of the API server is not counted.
	settle = 5 * time.Second
)

const manifest = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": %q},
  "spec": {"replicas": %d, "selector": {"matchLabels": {"app": %[1]q}},
    "template": {"metadata": {"labels": {"app": %[1]q}}, "spec": {"terminationGracePeriodSeconds": 1,
      "containers": [{"name": "pod", "image": %[3]q, "imagePullPolicy": "Never"}]}}}}`

// cycle measures one cycle of the Deployment.
func (c *Cluster) cycle(ctx context.Context) (_ *Cycle, err error) {
	body := fmt.Appendf(nil, manifest, name, c.o.First, kubernetes.PodImage)
	if err := c.try(ctx, http.MethodPost, deployments, jsonKind, body); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, c.try(ctx, http.MethodDelete, deployments+"/"+name, "", nil))
	}()
	c.o.say("%d pods, then %d, then none", c.o.First, c.o.Pods)
	w, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer w.end()
	if err := w.until(ctx, func() bool { return w.ready() == c.o.First }); err != nil {
		return nil, err
	}
	if !retry.Sleep(ctx, settle) {
		return nil, context.Cause(ctx)
	}
	before, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	ready, err := c.scale(ctx, w, c.o.Pods, func() bool { return w.ready() == c.o.Pods })
	if err != nil {
		return nil, err
	}
	if !retry.Sleep(ctx, c.o.Hold) {
		return nil, context.Cause(ctx)
	}
	gone, err := c.scale(ctx, w, 0, func() bool { return len(w.pods) == 0 })
	if err != nil {
		return nil, err
	}
	after, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	result := after.cycle(&before)
	result.ReadyS, result.GoneS = ready.Seconds(), gone.Seconds()
	return &result, nil
}

// try repeats a request until the API server takes it: controllers may be about to come back, too.
func (c *Cluster) try(ctx context.Context, method, path, kind string, body []byte) error {
	for pauses := retry.Between(100*time.Millisecond, time.Second); ; {
		err := c.api.Do(ctx, method, path, kind, body, nil)
		var failed *kubernetes.StatusError
		if err == nil || errors.As(err, &failed) && failed.Code < http.StatusInternalServerError || !pauses.Wait(ctx) {
			return err
		}
	}
}

// scale asks for a number of pods and returns the time until they are there.
func (c *Cluster) scale(ctx context.Context, w *watch, n int, there func() bool) (time.Duration, error) {
	start := time.Now()
	body := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, n)
	if err := c.api.Do(ctx, http.MethodPatch, deployments+"/"+name, mergeKind, body, nil); err != nil {
		return 0, err
	}
	err := w.until(ctx, there)
	return time.Since(start), err
}

// watch follows the Deployment's pods in one request.
type watch struct {
	pods   map[string]bool // whether each is ready
	events *json.Decoder
	end    func()
}

func (c *Cluster) watch(ctx context.Context) (*watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, err := c.api.Stream(ctx, http.MethodGet, pods+"&watch=1", "", nil)
	if err != nil {
		cancel()
		return nil, err
	}
	return &watch{make(map[string]bool), json.NewDecoder(body), func() { cancel(); body.Close() }}, nil
}

func (w *watch) ready() (n int) {
	for _, is := range w.pods {
		if is {
			n++
		}
	}
	return n
}

// event is one of the watch, with a pod.
type event struct {
	Type   string
	Object struct {
		Metadata struct {
			Name              string
			DeletionTimestamp *time.Time
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
}

// until takes events until something holds.
func (w *watch) until(ctx context.Context, holds func() bool) error {
	for !holds() {
		var e event
		if err := w.events.Decode(&e); err != nil {
			return errors.Join(fmt.Errorf("watch of %d pods, of which %d are ready: %w", len(w.pods), w.ready(), err),
				context.Cause(ctx))
		}
		name := e.Object.Metadata.Name
		switch e.Type {
		case "ADDED", "MODIFIED":
			w.pods[name] = false
			for _, condition := range e.Object.Status.Conditions {
				if condition.Type == "Ready" && condition.Status == "True" && e.Object.Metadata.DeletionTimestamp == nil {
					w.pods[name] = true
				}
			}
		case "DELETED":
			delete(w.pods, name)
		default:
			return fmt.Errorf("watch: the API server sent an event %q", e.Type)
		}
	}
	return nil
}
