package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await waits until the log has a text.
func (l *logged) await(t *testing.T, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); ; {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if !pauses.Wait(ctx) {
			t.Fatalf("the log does not say %q:\n%s", want, text)
		}
	}
}

// apart starts a cluster of members each of which has a chain and a version of its own.
func apart(t *testing.T, version func(i int) string, chains ...objects.Chain) (c *cluster, log *logged) {
	t.Helper()
	log = new(logged)
	n := len(chains)
	c = &cluster{t: t, fronts: make([]*member.Front, n), engines: make([]*Engine, n)}
	c.Cluster = etcdtest.Start(t, n, func(i int, m *etcdtest.Member) {
		m.Config = func(e *embed.Config) {
			c.fronts[i] = member.NewFront()
			c.fronts[i].Configure(e)
		}
	})
	for i, m := range c.Members {
		c.engines[i] = Start(Options{Server: m.Server, Chain: chains[i], Version: version(i),
			Log: slog.New(slog.NewTextHandler(log, nil))})
		c.fronts[i].Start(m.Server, c.engines[i])
	}
	t.Cleanup(func() {
		for _, e := range c.engines {
			e.Close()
		}
	})
	return c, log
}

// alike gives all members the same version.
func alike(int) string { return "v1" }

// checkOrder writes at one member and reads at another, in turn.
func checkOrder(t *testing.T, c *cluster, rounds int) {
	t.Helper()
	for i := range rounds {
		value := fmt.Sprint(i)
		writer, reader := c.Members[i%len(c.Members)], c.Members[(i+1)%len(c.Members)]
		if _, err := writer.Client.Put(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
		if r, err := reader.Client.Get(t.Context(), "k"); err != nil || string(r.Kvs[0].Value) != value {
			t.Fatalf("after a put of %s: %v, %v", value, r, err)
		}
	}
}

// TestTwoChains: members with different chains answer correctly, by etcd, and say what is wrong.
func TestTwoChains(t *testing.T) {
	one := softchain.Connect(t, softchain.Start(t, 3, 1, 64))
	c, log := apart(t, alike, one, one, softchain.Connect(t, softchain.Start(t, 3, 1, 64)))
	log.await(t, "all members have to use the same chain")
	checkOrder(t, c, 100)
	if n := c.fast(); n != 0 {
		t.Errorf("%d fast reads", n)
	}
}

// shared is a chain in which all objects have one key.
type shared struct {
	objects.Chain
	key string
}

func (s shared) GetMany(ctx context.Context, keys []string, options ...client.ReadOption) []client.Outcome {
	return s.Chain.GetMany(ctx, slices.Repeat([]string{s.key}, len(keys)), options...)
}

func (s shared) Do(ctx context.Context, ops []client.Op) []client.Outcome {
	for i := range ops {
		ops[i].Key = s.key
	}
	return s.Chain.Do(ctx, ops)
}

// TestTwoClusters: two clusters whose members have the same numbers use one chain. Both answer correctly, and say what
// is wrong.
func TestTwoClusters(t *testing.T) {
	chain := shared{softchain.Connect(t, softchain.Start(t, 3, 1, 64)), "member/1/1"}
	one, said := apart(t, alike, chain)
	one.await(core.On)
	two, saidToo := apart(t, alike, chain)
	for _, log := range []*logged{said, saidToo} {
		log.await(t, "somebody else writes this member's object")
	}
	checkOrder(t, one, 100)
	checkOrder(t, two, 100)
}

// TestVersions: members name their versions to each other. Reads are fast with another version that says the same, and
// etcd's, without a stale one, while a member says what this version cannot read.
func TestVersions(t *testing.T) {
	chain := softchain.Connect(t, softchain.Start(t, 3, 1, 64))
	c, log := apart(t, func(i int) string { return fmt.Sprint("v", i/2) }, chain, chain, chain)
	c.await(core.On)
	log.await(t, "another member has another version\" member=m2 its_version=v1 own_version=v0")
	log.await(t, "another member has another version\" member=m0 its_version=v0 own_version=v1")
	if own, others := c.engines[0].Versions(); own != "v0" || !maps.Equal(others, map[string]string{"m2": "v1"}) {
		t.Errorf("%s, and others have %v", own, others)
	}
	checkOrder(t, c, 50)
	if c.fast() == 0 {
		t.Error("no read was fast")
	}

	next := c.Members[2]
	c.engines[2].Close()
	next.Stop()
	c.engines, c.fronts = c.engines[:2], c.fronts[:2]
	next.Config = func(e *embed.Config) { e.AdvertiseClientUrls[0].Fragment = "netcraq.2.what.it.may.say@v2" }
	next.Begin()
	next.Await()
	log.await(t, "run the same version at all members\" member=m2 its_version=v2")
	c.await(core.Off)
	if _, others := c.engines[0].Versions(); others["m2"] != "v2" || !slices.Contains(c.engines[0].Out(), "m2") {
		t.Errorf("other versions are %v, out are %v", others, c.engines[0].Out())
	}
	before := c.fast()
	checkOrder(t, c, 50)
	if n := c.fast() - before; n != 0 {
		t.Errorf("%d fast reads", n)
	}
}
