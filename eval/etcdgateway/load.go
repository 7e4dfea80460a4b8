package etcdgateway

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/statistics"
)

// PlacedPrefix begins the keys that the gateway has to cache whenever they are read: writes alone would take them out.
const PlacedPrefix = "bench/placed/"

// direct returns the load for clients of etcd. They write to keys of their own: a gateway does not cache a key that was
// written without it.
func direct(l *etcdload.Load) *etcdload.Load {
	d := *l
	if l.Writes > 0 {
		d.Key = func(random *rand.Rand) string { return directPrefix + l.Key(random) }
	}
	return &d
}

const directPrefix = "direct/"

// probeKey does not exist: only the revision of its answer is of use.
const probeKey = "bench/probe"

func hotKey(i int) string    { return fmt.Sprintf("bench/hot/%03d", i) }
func zipfKey(i int) string   { return fmt.Sprintf("bench/zipf/%05d", i) }
func placedKey(i int) string { return fmt.Sprintf("%s%03d", PlacedPrefix, i) }
func coldKey(i int) string   { return fmt.Sprintf("bench/cold/%05d", i) }
func mixedKey(i int) string  { return fmt.Sprintf("bench/mixed/%05d", i) }

// Names of the loads, in the order of the table.
const (
	hotRange  = "range, hot keys"
	zipfRange = "range, Zipf"
	probe     = "revision probe"
	coldPut   = "put, not placed"
	coldTxn   = "txn, not placed"
	placedPut = "put, placed"
	mixed1    = "1 % puts, 99 % ranges"
	mixed10   = "10 % puts, 90 % ranges"
	mixed50   = "50 % puts, 50 % ranges"
)

var names = []string{hotRange, zipfRange, probe, coldPut, coldTxn, placedPut, mixed1, mixed10, mixed50}

func (o *Options) loads() []etcdload.Load {
	zipf, value := statistics.NewZipf(o.ZipfKeys, zipfExponent), strings.Repeat("v", o.ValueBytes)
	one := func(key func(int) string, n int) func(*rand.Rand) string {
		return func(random *rand.Rand) string { return key(random.IntN(n)) }
	}
	mixed := func(name string, writes float64) etcdload.Load {
		return etcdload.Load{
			Name: name, About: fmt.Sprintf("exponent %v, %d keys", zipfExponent, o.ZipfKeys), Writes: writes, Value: value,
			Key: func(random *rand.Rand) string { return mixedKey(zipf.Draw(random.Float64())) },
		}
	}
	return []etcdload.Load{
		{Name: hotRange, About: fmt.Sprintf("%d keys", o.HotKeys), Key: one(hotKey, o.HotKeys)},
		{Name: zipfRange, About: fmt.Sprintf("exponent %v, %d keys", zipfExponent, o.ZipfKeys),
			Key: func(random *rand.Rand) string { return zipfKey(zipf.Draw(random.Float64())) }},
		{Name: probe, About: "a key that does not exist, limit 1", Limit: 1,
			Key: func(*rand.Rand) string { return probeKey }},
		{Name: coldPut, About: fmt.Sprintf("%d keys", o.ZipfKeys), Writes: 1, Key: one(coldKey, o.ZipfKeys), Value: value},
		{Name: coldTxn, About: fmt.Sprintf("%d keys, put if the key exists, else get", o.ZipfKeys), Writes: 1, Txn: true,
			Key: one(coldKey, o.ZipfKeys), Value: value},
		{Name: placedPut, About: fmt.Sprintf("%d keys", o.HotKeys), Writes: 1, Key: one(placedKey, o.HotKeys), Value: value},
		mixed(mixed1, 0.01), mixed(mixed10, 0.1), mixed(mixed50, 0.5),
	}
}

// Window is what clients saw of one load within its time, and what it cost.
type Window struct {
	etcdload.Window
	// HitShare is the part of the reads through the gateway that the chain answered; after writes of placed keys, the part
	// of these keys that the chain then answers.
	HitShare float64 `json:"hit_share"`
	// NearbyShare is the part of HitShare without the network: by a node on the gateway's machine.
	NearbyShare float64 `json:"nearby_share"`
	CPU         CPU     `json:"cpu_us"`
}
