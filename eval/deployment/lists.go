package deployment

import (
	"context"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/eval/statistics"
)

// The load for consistent lists, in requests a second. It writes objects of another kind than those that are listed.
const (
	listsPerSecond  = 20
	writesPerSecond = 50
)

// listedPods are all pods, as of now: the API server answers from its watch cache once that has etcd's revision.
const listedPods = "/api/v1/pods"

// lists measures consistent lists while other objects are written: how long the client waits, and how long the API
// server waits for its watch cache.
func (c *Cluster) lists(ctx context.Context, r *Cycle) error {
	if c.o.Lists == 0 {
		return nil
	}
	c.o.say("consistent lists while other objects are written")
	if err := c.try(ctx, http.MethodPost, configMaps, jsonKind, configMap(0)); err != nil {
		return err
	}
	defer func() { _ = c.try(ctx, http.MethodDelete, configMaps+"/"+name, "", nil) }() // the cluster is removed anyway
	before, err := c.read(ctx)
	if err != nil {
		return err
	}
	load, within := errgroup.WithContext(ctx)
	load.Go(func() error {
		_, err := paced(c.o.Lists, time.Second/writesPerSecond, func(n int) error {
			return c.api.Do(within, http.MethodPut, configMaps+"/"+name, jsonKind, configMap(n), nil)
		})
		return err
	})
	var took []float64
	load.Go(func() (err error) {
		took, err = paced(c.o.Lists, time.Second/listsPerSecond, func(int) error { return c.api.Get(within, listedPods, nil) })
		return err
	})
	if err := load.Wait(); err != nil {
		return err
	}
	after, err := c.read(ctx)
	if err != nil {
		return err
	}
	const waits, milliseconds = "apiserver_watch_cache_read_wait_seconds", 1000
	waited := after.api.histogram(waits, "").since(before.api.histogram(waits, ""))
	r.WaitP50Ms, r.WaitP99Ms = waited.quantile(0.5)*milliseconds, waited.quantile(0.99)*milliseconds
	r.ListP50Ms, r.ListP99Ms = statistics.Quantile(0.5, took), statistics.Quantile(0.99, took)
	return nil
}

// paced calls for some time, at most once an interval, and returns the sorted durations of the calls in milliseconds.
func paced(within, interval time.Duration, call func(int) error) ([]float64, error) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var took []float64
	for end := time.Now().Add(within); time.Now().Before(end); <-ticks.C {
		one, err := timed(1, func(int) error { return call(len(took)) })
		if err != nil {
			return nil, err
		}
		took = append(took, one...)
	}
	slices.Sort(took)
	return took, nil
}
