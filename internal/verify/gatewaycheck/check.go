package gatewaycheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (o *Op) found(kvs []*mvccpb.KeyValue) {
	o.Seen = true
	if len(kvs) > 0 {
		o.Found = kvOf(kvs[0])
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
	h := &History{keys: make(map[string][]state), writes: make(map[string]int64)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end, err := etcd.Put(ctx, prefix+"end", "") // the watch has reached the present when it shows this
	if err != nil {
		return nil, err
	}
	h.rev = end.Header.Revision
	for next := int64(1); ctx.Err() == nil; {
		begin := next
		for answer := range etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(begin)) {
			if next = begins(begin, &answer); next != begin {
				continue // the watch ends
			}
			if answer.Err() != nil {
				return nil, answer.Err()
			}
			for _, e := range answer.Events {
				if e.Kv.ModRevision == end.Header.Revision {
					return h, nil
				}
				h.add(eventOf(e), kvOf(e.Kv))
			}
		}
		if next == begin {
			break
		}
	}
	return nil, fmt.Errorf("etcd ended the watch of its history: %w", context.Cause(ctx))
}

// begins returns the revision to watch from. The first revision of a keyspace in memory is not 1.
func begins(from int64, answer *clientv3.WatchResponse) int64 {
	if from == 1 && answer.CompactRevision > from {
		return answer.CompactRevision
	}
	return from
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

// list is all keys below a prefix as they were at a revision.
func (h *History) list(prefix string, rev int64) map[string]KV {
	list := make(map[string]KV)
	for key := range h.keys {
		if strings.HasPrefix(key, prefix) {
			if is := h.at(key, rev); is.Mod != 0 {
				list[key] = is.KV
			}
		}
	}
	return list
}

// Check compares a record with what happened.
func (r *Record) Check(h *History) (violations []string) {
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Err == nil {
			if wrong := h.judge(o); wrong != "" {
				violations = append(violations, wrong)
			}
		}
	}
	for _, late := range r.Late {
		violations = append(violations, "watch: "+late)
	}
	for i, events := range r.Watches {
		for j, e := range events {
			if j >= len(h.events) || h.events[j] != e {
				violations = append(violations, fmt.Sprintf("watch: event %d of server %d is %+v, and etcd's is %+v", j, i, e,
					h.events[min(j, len(h.events)-1)]))
				break
			}
		}
	}
	return append(violations, r.linearizable(h)...)
}

// judge compares an answer with what happened.
func (h *History) judge(o *Op) string {
	is := h.at(o.Key, o.Rev)
	switch {
	case o.Rev < o.Floor && o.Way != Serializable, o.Rev > h.rev:
		return fmt.Sprintf("header: %v; etcd is at %d", o, h.rev)
	case o.Seen && o.Found != is.KV:
		return fmt.Sprintf("exact: %v; etcd had %+v then", o, is)
	case o.Kind == List:
		if list := h.list(o.Key, o.Rev); !maps.Equal(o.Listed, list) {
			return fmt.Sprintf("exact: %v; etcd had %+v then", o, list)
		}
		return ""
	}
	if o.service() {
		return h.judgeService(o, is)
	}
	deleted := int64(0)
	for _, key := range o.keys() {
		is := h.at(key, o.Rev)
		switch {
		case o.puts() && o.Held && (is.rev != o.Rev || is.Value != o.Value), o.deletes() && is.Mod != 0:
			return fmt.Sprintf("once: %v; etcd has %+v for %s at that revision", o, is, key)
		case o.deletes() && is.rev == o.Rev:
			deleted++
		}
	}
	if o.Held && o.deletes() && deleted != o.Deleted { // else others deleted them, maybe at that revision
		return fmt.Sprintf("once: %v; etcd deleted %d keys at that revision", o, deleted)
	}
	return ""
}

// step is what an operation did to one key.
type step struct {
	*Op
	key string
}

// model is a register.
var model = porcupine.Model{
	Init: func() any { return "" },
	Step: func(s, input, _ any) (bool, any) {
		o, value := input.(step), s.(string)
		switch {
		case o.Err == nil && o.Seen:
			return value == o.Found.Value, s
		case o.Kind == Revoke && value == o.Value:
			return true, ""
		case o.Kind == Get, o.Kind == Revoke, o.service() && !o.puts(): // what these delete, history has
			return true, s
		case o.deletes():
			return o.Err != nil || o.Held || value == "", ""
		}
		return true, o.Value
	},
}

// perKey bounds the search for an order of a key's operations.
const perKey = 30 * time.Second

// linearizable looks for an order of each key's operations. A write of unknown outcome that etcd never had is left out, and one that
// it had may have happened at any time after its call. So may a deletion that no answer acknowledged: its client did not learn of it,
// or a lease ran out.
func (r *Record) linearizable(h *History) (violations []string) {
	keys, wrote, told := make(map[string][]porcupine.Operation), make(map[string]int64), make(map[string]map[int64]bool)
	add := func(o *Op, key string, end int64) {
		keys[key] = append(keys[key], porcupine.Operation{ClientId: o.Client, Input: step{o, key}, Call: o.Call, Return: end})
	}
	for i := range r.Ops {
		o := &r.Ops[i]
		if o.Way == Serializable {
			continue
		}
		if o.puts() {
			wrote[o.Value] = o.Call
		}
		_, happened := h.writes[o.Value]
		for _, key := range o.keys() {
			switch {
			case o.Err == nil:
				add(o, key, o.Return)
			case o.puts() && happened:
				add(o, key, math.MaxInt64)
			}
			if o.Err == nil && o.Held && o.deletes() {
				if told[key] == nil {
					told[key] = make(map[int64]bool)
				}
				told[key][o.Rev] = true
			}
		}
	}
	for key, states := range h.keys {
		for i, is := range states {
			if i > 0 && is.Mod == 0 && !told[key][is.rev] {
				add(&Op{Client: silent, Kind: Delete, Key: key, Call: wrote[states[i-1].Value], Err: errSilent}, key, math.MaxInt64)
			}
		}
	}
	for key, ops := range keys {
		if porcupine.CheckOperationsTimeout(model, ops, perKey) == porcupine.Illegal {
			violations = append(violations, fmt.Sprintf("linearizable: %s has no order of its %d operations", key, len(ops)))
		}
	}
	return violations
}

// silent is the client of deletions that no client was told of.
const silent = -1

var errSilent = errors.New("no answer acknowledged it")

// Kinds counts the answered operations by kind.
func (r *Record) Kinds() map[string]int {
	kinds := make(map[string]int)
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Err == nil {
			kinds[o.Kind.String()]++
		}
	}
	return kinds
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
