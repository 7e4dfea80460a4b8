package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/packing"
)

const (
	// dictionaries begins, below OwnPrefix, the names of dictionaries. It comes behind all other names, so that these can be read
	// without them.
	dictionaries = "~dictionary/"
	// maxDictionaries bounds those of one etcd. Values may be packed with any, so none is removed.
	maxDictionaries = 8
	// leastSample is the least value from which dictionaries are trained.
	leastSample = 128
	// judgeAfter is after how many values that had to be packed a dictionary is judged, and poor the share of those that do not fit
	// for which another is trained.
	judgeAfter = 512
	poor       = 0.3
)

// packed is what the gateway knows of packing values that do not fit.
type packed struct {
	set *packing.Set

	mu            sync.Mutex
	samples       packing.Samples
	tried, misfit int // values, with the newest dictionary
	bytes, after  int // of these values, before and after packing
}

// sample takes a value from which a dictionary may be trained.
func (e *Engine) sample(value string) {
	if len(value) < leastSample {
		return
	}
	p := &e.packing
	p.mu.Lock()
	p.samples.See([]byte(value))
	p.mu.Unlock()
}

// pack returns a value as an object has it: as it is or, if it does not fit, compressed.
func (e *Engine) pack(key string, value []byte) (v string, isPacked, fits bool) {
	if e.store.Fits(key, len(value)) {
		return string(value), false, true
	}
	if !e.store.Fits(key, 0) || len(value) > e.o.Placement.Largest {
		return "", false, false
	}
	v, ok := e.packing.set.Pack(value)
	if !ok {
		return "", false, false
	}
	fits = e.store.Fits(key, len(v))
	p := &e.packing
	p.mu.Lock()
	p.tried, p.bytes, p.after = p.tried+1, p.bytes+len(value), p.after+len(v)
	if !fits {
		p.misfit++
	}
	p.mu.Unlock()
	return v, fits, fits
}

// mayFit estimates whether a value can be cached, from those that were packed.
func (e *Engine) mayFit(key string, value int) bool {
	if e.store.Fits(key, value) {
		return true
	}
	if len(e.packing.set.Known()) == 0 || value > e.o.Placement.Largest {
		return false
	}
	p := &e.packing
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes == 0 || e.store.Fits(key, value*p.after/p.bytes)
}

// learn reads dictionaries that are new, and trains one if there is none, or none that serves.
func (e *Engine) learn(ctx context.Context) error {
	prefix := OwnPrefix + dictionaries
	client := pb.NewKVClient(e.o.Etcd)
	there, err := client.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: behind(prefix), KeysOnly: true})
	if err != nil {
		return err
	}
	known, newest := e.packing.set.Known(), uint32(0)
	for _, kv := range there.Kvs {
		number, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), prefix), 10, 32)
		if err != nil {
			return fmt.Errorf("%s is not a dictionary: %w", kv.Key, err)
		}
		newest = max(newest, uint32(number))
		if slices.Contains(known, uint32(number)) {
			continue
		}
		answer, err := client.Range(ctx, &pb.RangeRequest{Key: kv.Key})
		if err != nil {
			return err
		}
		for _, kv := range answer.Kvs {
			if err := e.packing.set.Add(uint32(number), kv.Value); err != nil {
				return err
			}
			e.packing.renew()
		}
	}
	if samples := e.packing.wanted(newest); samples != nil {
		return e.train(ctx, samples, newest+1)
	}
	return nil
}

// renew begins the account of a new dictionary.
func (p *packed) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried, p.misfit, p.bytes, p.after = 0, 0, 0, 0
}

// wanted returns the samples for another dictionary; nil: none is wanted.
func (p *packed) wanted(newest uint32) *packing.Samples {
	p.mu.Lock()
	defer p.mu.Unlock()
	serves := newest > 0 && (p.tried < judgeAfter || float64(p.misfit) < poor*float64(p.tried))
	if serves || newest >= maxDictionaries || !p.samples.Enough() {
		return nil
	}
	return p.samples.Clone()
}

// train makes a dictionary, unless another gateway is first. The next survey adds it.
func (e *Engine) train(ctx context.Context, samples *packing.Samples, number uint32) error {
	text, err := samples.Train()
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s%s%d", OwnPrefix, dictionaries, number)
	_, err = pb.NewKVClient(e.o.Etcd).Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{compare(&core.Cond{Key: key, Kind: core.CreateIs})},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: text}}}},
	})
	return err
}
