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
	Lost      uint64 `json:"lost"` // reads of another value than the one written last
	LongestMs int64  `json:"longest_ms"`
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
		start := time.Now()
		t.step(ctx, c.Client, key, number)
		if ctx.Err() != nil {
			break // what the end interrupted does not count
		}
		t.LongestMs = max(t.LongestMs, time.Since(start).Milliseconds())
		if time.Since(t.reported) >= reportEvery {
			t.reported = time.Now()
			if err := show(t); err != nil {
				return err
			}
		}
	}
	return show(t)
}

// step writes a number and reads it back.
func (t *tally) step(ctx context.Context, c *client.Client, key string, number uint64) {
	if _, err := c.Put(ctx, key, binary.BigEndian.AppendUint64(nil, number)); err != nil {
		t.failed(ctx, err)
		return
	}
	t.Writes++
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
	if len(r.Value) != 8 || binary.BigEndian.Uint64(r.Value) != number {
		t.Lost++
	}
}

func (t *tally) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		t.Errors++
		t.LastError = err.Error()
	}
}
