package gatewaycheck

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (o *Op) found(kvs []*mvccpb.KeyValue) {
	o.Seen = true
	if len(kvs) > 0 {
		kv := kvs[0]
		o.Found = KV{string(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version}
	}
}

// History is what etcd says that happened.
type History struct {
	rev    int64
	events []Event
	keys   map[string][]state
	writes map[string]int64 // revision of each value
}

type state struct {
	rev int64
	KV
}

// ReadHistory reads all changes below a prefix from etcd itself.
func ReadHistory(ctx context.Context, etcd *clientv3.Client, prefix string) (*History, error) {
	now, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, err
	}
	h := &History{rev: now.Header.Revision, keys: make(map[string][]state), writes: make(map[string]int64)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end, err := etcd.Put(ctx, prefix+"end", "") // the watch has reached the present when it shows this
	if err != nil {
		return nil, err
	}
	for answer := range etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if answer.Err() != nil {
			return nil, answer.Err()
		}
		for _, e := range answer.Events {
			if e.Kv.ModRevision == end.Header.Revision {
				return h, nil
			}
			h.add(Event{string(e.Kv.Key), e.Kv.ModRevision, e.Type == clientv3.EventTypeDelete, string(e.Kv.Value)},
				KV{string(e.Kv.Value), e.Kv.CreateRevision, e.Kv.ModRevision, e.Kv.Version})
		}
	}
	return nil, fmt.Errorf("etcd ended the watch of its history: %w", context.Cause(ctx))
}

func (h *History) add(e Event, kv KV) {
	h.events = append(h.events, e)
	if e.Delete {
		kv = KV{}
	} else {
		h.writes[e.Value] = e.Rev
	}
	h.keys[e.Key] = append(h.keys[e.Key], state{e.Rev, kv})
}

// at is a key as it was at a revision.
func (h *History) at(key string, rev int64) state {
	list := h.keys[key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].rev <= rev {
			return list[i]
		}
	}
	return state{}
}

// Check compares a record with what happened.
func (r *Record) Check(h *History) (violations []string) {
	broken := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	for i := range r.Ops {
		o := &r.Ops[i]
		is := h.at(o.Key, o.Rev)
		switch {
		case o.Err != nil:
			continue
		case o.Rev < o.Floor || o.Rev > h.rev:
			broken("header: %v; etcd is at %d", o, h.rev)
		case o.Seen && o.Found != is.KV:
			broken("exact: %v; etcd had %+v then", o, is)
		case o.Held && o.Kind != Delete && (is.rev != o.Rev || is.Value != o.Value):
			broken("once: %v; etcd has %+v at that revision", o, is)
		case o.Held && o.Kind == Delete && (is.rev != o.Rev || is.Mod != 0):
			broken("once: %v; etcd has %+v at that revision", o, is)
		}
	}
	for i, events := range r.Watches {
		for j, e := range events {
			if j >= len(h.events) || h.events[j] != e {
				broken("watch: event %d of gateway %d is %+v, and etcd's is %+v", j, i, e, h.events[min(j, len(h.events)-1)])
				break
			}
		}
	}
	return append(violations, r.linearizable(h)...)
}

// model is a register.
var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(s, input, _ any) (bool, any) {
		o := input.(*Op)
		switch {
		case o.Err == nil && o.Seen:
			return s.(string) == o.Found.Value, s
		case o.Err == nil && !o.Held || o.Kind == Get:
			return true, s
		case o.Kind == Delete:
			return true, ""
		}
		return true, o.Value
	},
}

// perKey bounds the search for an order of a key's operations.
const perKey = 30 * time.Second

// linearizable looks for an order of each key's operations. A write of unknown outcome that etcd never had is left out, and one that
// it had may have happened at any time after its call.
func (r *Record) linearizable(h *History) (violations []string) {
	keys := make(map[string][]porcupine.Operation)
	for i := range r.Ops {
		o := &r.Ops[i]
		end := o.Return
		if o.Err != nil {
			if _, happened := h.writes[o.Value]; o.Kind == Get || !happened && o.Kind != Delete {
				continue
			}
			end = math.MaxInt64
		}
		keys[o.Key] = append(keys[o.Key], porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: nil, Return: end})
	}
	for key, ops := range keys {
		if porcupine.CheckOperationsTimeout(model, ops, perKey) == porcupine.Illegal {
			violations = append(violations, fmt.Sprintf("linearizable: %s has no order of its %d operations", key, len(ops)))
		}
	}
	return violations
}

// Counts says what a record has.
func (r *Record) Counts() (answered, unknown, events int) {
	for i := range r.Ops {
		if r.Ops[i].Err != nil {
			unknown++
		} else {
			answered++
		}
	}
	for _, w := range r.Watches {
		events += len(w)
	}
	return answered, unknown, events
}
