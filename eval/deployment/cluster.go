package deployment

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// Cluster is a cluster that is up for measurements.
type Cluster struct {
	o       Options
	api     *kubernetes.API
	control *http.Client
}

// stepLimit bounds each step of an experiment. It is for a program that hangs, not a measure of speed.
const stepLimit = 5 * time.Minute

// Open brings a cluster up. Close it also after an error of a measurement.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Cluster.Progress = func(s string) { o.say("%s", s) }
	if err := kubernetes.Up(ctx, o.Cluster); err != nil {
		return nil, err
	}
	c := &Cluster{o: o}
	var err error
	if c.api, err = kubernetes.NewAPI(o.Cluster.Name); err == nil {
		c.control, err = kubernetes.ControlClient(o.Cluster.Name)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close removes the cluster.
func (c *Cluster) Close() error {
	if c.api != nil {
		c.api.Close()
	}
	if c.control != nil {
		c.control.CloseIdleConnections()
	}
	_, err := kubernetes.Down(context.Background(), c.o.Cluster.Name)
	return err
}

// Measure lets the API server serve in a way, and measures one cycle and the latency of single requests.
func (c *Cluster) Measure(ctx context.Context, serving kubernetes.Serving) (*Cycle, error) {
	within, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("not in time"))
	defer cancel()
	c.o.say("the API server's store: %s", serving.Store)
	if err := kubernetes.Use(within, c.o.Cluster.Name, serving, func(s string) { c.o.say("%s", s) }); err != nil {
		return nil, err
	}
	cycle, err := c.cycle(within)
	if err != nil {
		return nil, err
	}
	cycle.Serving = serving
	c.o.say("requests one after the other")
	if err := c.latency(within, cycle); err != nil {
		return nil, err
	}
	if err := c.lists(within, cycle); err != nil {
		return nil, err
	}
	return cycle, nil
}
