package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
)

const (
	// keys is the number of keys of a pod, which writes no others.
	keys = 16
	// patience is the time that an operation has: more than the failure of a machine takes.
	patience = 30 * time.Second
	// reportEvery is the time between two lines.
	reportEvery = time.Second
)

// tally is what a pod's load saw.
type tally struct {
	Writes    uint64 `json:"writes"`
	Reads     uint64 `json:"reads"`
	Errors    uint64 `json:"errors"` // operations without an answer, or with another one than OK
	LastError string `json:"last_error,omitempty"`
	Lost      uint64 `json:"lost"`       // reads of another value than the one written last
	LongestMs int64  `json:"longest_ms"` // since the last line
	Longest   string `json:"longest"`    // the operation that took it, for the search of its cause
	reported  time.Time
}

// load writes and reads keys in turn until it is told to end. Every value is the number of its write, and no one else
// writes the keys, so that each read has one right answer.
func load(ctx context.Context, controllers []string) error {
	c, err := connect.Open(ctx, connect.Options{Controllers: controllers, Client: client.Options{Timeout: patience}})
	if err != nil {
		return err
	}
	defer c.Close()
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	var t tally
	for number := uint64(1); ctx.Err() == nil; number++ {
		key := fmt.Sprintf("%s/%d", name, number%keys)
		t.step(ctx, c.Client, key, number)
		if ctx.Err() != nil {
			break // what the end interrupted does not count
		}
		if time.Since(t.reported) >= reportEvery {
			t.reported = time.Now()
			if err := show(t); err != nil {
				return err
			}
			t.LongestMs, t.Longest = 0, ""
		}
	}
	return show(t)
}

// step writes a number and reads it back.
func (t *tally) step(ctx context.Context, c *client.Client, key string, number uint64) {
	w, err := c.Put(ctx, key, binary.BigEndian.AppendUint64(nil, number))
	if err != nil {
		t.failed(ctx, err)
		return
	}
	t.Writes++
	t.time("put", key, &w)
	r, err := c.Get(ctx, key)
	if errors.Is(err, client.ErrNotFound) {
		t.Lost++
		return
	}
	if err != nil {
		t.failed(ctx, err)
		return
	}
	t.Reads++
	t.time("get", key, &r)
	if len(r.Value) != 8 || binary.BigEndian.Uint64(r.Value) != number {
		t.Lost++
	}
}

// time records an operation that took longer than all since the last line.
func (t *tally) time(op, key string, r *client.Result) {
	if ms := r.Elapsed.Milliseconds(); ms > t.LongestMs {
		t.LongestMs = ms
		t.Longest = fmt.Sprintf("%s %s ended %s: %d attempts, asked %s, answered by %s, shard %d, epoch %d", op, key,
			time.Now().UTC().Format(time.RFC3339Nano), r.Attempts, r.Asked, r.Node, r.Shard, r.Epoch)
	}
}

func (t *tally) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		t.Errors++
		t.LastError = err.Error()
	}
}
