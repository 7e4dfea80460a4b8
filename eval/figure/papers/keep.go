package papers

import (
	"context"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
)

// keep caches the resources of measurements. It opens one at its first use, and closes one when
// too many are open, or with the harness.
type keep[K comparable, T any] struct {
	most  int // that are open at once
	open  func(context.Context, K) (T, error)
	close func(T)
	keys  []K // of open resources, the one used last at the end
	items map[K]T
}

// get returns the resource of a key.
func (k *keep[K, T]) get(ctx context.Context, key K) (T, error) {
	if item, ok := k.items[key]; ok {
		k.keys = append(slices.DeleteFunc(k.keys, func(other K) bool { return other == key }), key)
		return item, nil
	}
	for len(k.keys) >= k.most {
		k.drop(k.keys[0])
	}
	item, err := k.open(ctx, key)
	if err != nil {
		return item, err
	}
	if k.items == nil {
		k.items = make(map[K]T)
	}
	k.keys, k.items[key] = append(k.keys, key), item
	return item, nil
}

// drop closes one: after an error, so that the next measurement begins with a new one.
func (k *keep[K, T]) drop(key K) {
	if item, ok := k.items[key]; ok {
		k.close(item)
		delete(k.items, key)
		k.keys = slices.DeleteFunc(k.keys, func(other K) bool { return other == key })
	}
}

// all closes all open resources.
func (k *keep[K, T]) all() {
	for len(k.keys) > 0 {
		k.drop(k.keys[0])
	}
}

// harness is a harness made of functions.
type harness struct {
	measure  func(context.Context, figure.Cell, time.Duration) (figure.Sample, error)
	settings []string
	close    func()
}

func (r *harness) note(settings []string) {
	for _, s := range settings {
		if !slices.Contains(r.settings, s) {
			r.settings = append(r.settings, s)
		}
	}
}

// Settings are how the parts are set up.
func (r *harness) Settings() []string { return r.settings }

// Close ends all parts.
func (r *harness) Close() { r.close() }

// values is a sample of numbers.
func values(v map[string]float64) figure.Sample { return figure.Sample{Values: v} }

// verdict is Agrees if so, else Differs.
func verdict(agrees bool) figure.Verdict {
	if agrees {
		return figure.Agrees
	}
	return figure.Differs
}

// Measure measures one cell.
func (r *harness) Measure(ctx context.Context, cell figure.Cell, window time.Duration) (figure.Sample, error) {
	return r.measure(ctx, cell, window)
}
