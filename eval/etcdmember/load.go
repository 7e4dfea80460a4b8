package etcdmember

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/statistics"
)

// Names of the loads, in the order of the table.
const (
	ranges  = "range"
	lists   = "list"
	puts    = "put"
	onePut  = "put, one client"
	txns    = "txn"
	mixed1  = "1 % puts, 99 % ranges"
	mixed10 = "10 % puts, 90 % ranges"
	mixed50 = "50 % puts, 50 % ranges"

	leaderRanges   = "range, leader"
	followerRanges = "range, followers"
	busyRanges     = "range, followers, busy leader"

	fanouts = "watch fan-out"
)

const (
	// fanoutWriters put the keys of which many watchers get events.
	fanoutWriters = 4
	// leastFanout is how long they put at least, in seconds: of each put all watchers have to get the event.
	leastFanout = 2
)

func (o *Options) fanout() *etcdload.Fanout {
	return &etcdload.Fanout{
		Watchers: o.Watchers, Writers: fanoutWriters, Prefix: "watched/", Value: strings.Repeat("v", o.ValueBytes),
	}
}

// place says which members a load is sent to.
type place int

const (
	everywhere place = iota
	leader
	followers
)

// load is a load and its place.
type load struct {
	etcdload.Load
	at    place
	alone bool // one client sends it
	busy  bool // as many other clients put at the leader meanwhile
}

// listOf begins the keys of the i-th list.
func listOf(i int) string { return fmt.Sprintf("bench/%06d/", i) }

func keyOf(i int) string { return fmt.Sprintf("%s%02d", listOf(i/ListKeys), i%ListKeys) }

// loads returns all loads. Keys are drawn by Zipf's distribution; neighbours in it are neighbours in the store, but are not
// asked for one after the other.
func (o *Options) loads() []load {
	zipf, value := statistics.NewZipf(o.Keys, zipfExponent), strings.Repeat("v", o.ValueBytes)
	key := func(random *rand.Rand) string { return keyOf(zipf.Draw(random.Float64())) }
	about := fmt.Sprintf("exponent %v, %d keys", zipfExponent, o.Keys)
	all := []load{{Load: etcdload.Load{Name: ranges, About: about, Key: key}}}
	if o.Members > 1 && o.Fast != "" {
		all = append(all, load{Load: etcdload.Load{Name: leaderRanges, About: about, Key: key}, at: leader},
			load{Load: etcdload.Load{Name: followerRanges, About: about, Key: key}, at: followers},
			load{Load: etcdload.Load{Name: busyRanges, About: about + ", while as many clients put at the leader", Key: key},
				at: followers, busy: true})
	}
	for _, l := range []etcdload.Load{
		{Name: lists, About: fmt.Sprintf("all %d keys with a prefix", ListKeys), Prefix: true,
			Key: func(random *rand.Rand) string { return listOf(random.IntN(o.Keys / ListKeys)) }},
		{Name: puts, About: about, Writes: 1, Key: key, Value: value},
		{Name: txns, About: about + ", put if the key exists, else get", Writes: 1, Txn: true, Key: key, Value: value},
	} {
		all = append(all, load{Load: l})
	}
	if o.Alone {
		all = append(all, load{Load: etcdload.Load{Name: onePut, About: about, Writes: 1, Key: key, Value: value}, alone: true})
	}
	for _, m := range []struct {
		name   string
		writes float64
	}{{mixed1, 0.01}, {mixed10, 0.1}, {mixed50, 0.5}} {
		all = append(all, load{Load: etcdload.Load{Name: m.name, About: about, Writes: m.writes, Key: key, Value: value}})
	}
	return all
}
