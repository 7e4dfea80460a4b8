package etcdgateway

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/internal/gateway/pages"
)

// Own is a comparison of an etcd and gateways that run already, and serve others meanwhile.
type Own struct {
	Etcd     []string // endpoints
	Gateways pages.Client
	TLS      *tls.Config // towards both; nil: none

	Clients, Conns, HotKeys, Keys, ValueBytes, Rounds int
	Seconds                                           float64
	Seed                                              uint64
	Progress                                          func(step string)
}

// OwnDefaults are options that burden a small etcd little.
func OwnDefaults() Own {
	return Own{Clients: 8, Conns: 2, HotKeys: 10, Keys: 100, ValueBytes: 400, Seconds: 2, Rounds: 3, Seed: 1}
}

// Validate checks the options.
func (o *Own) Validate() error {
	return CheckBounds([]Bound{
		{"conns", o.Conns, 1, 64}, {"clients", o.Clients, 1, 1000}, {"hot-keys", o.HotKeys, 1, 100},
		{"zipf-keys", o.Keys, 1, 10_000}, {"value-bytes", o.ValueBytes, 1, 4096}, {"rounds", o.Rounds, 1, 1000},
	}, o.Seconds)
}

const (
	// ownPrefix begins the keys of all comparisons. The next part is drawn, and one comparison's.
	ownPrefix = "netcraq-bench/"
	// tidyWithin bounds the time to delete the keys, also after an interruption.
	tidyWithin = 30 * time.Second
)

// LeftError says that keys were not deleted.
type LeftError struct {
	Prefix string
	err    error
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("keys are left in etcd: %v. Delete them with etcdctl --endpoints GATEWAY del --prefix %s", e.err, e.Prefix)
}

func (e *LeftError) Unwrap() error { return e.err }

// OwnLoad is the result of one load: medians over the rounds, and of the rounds' ratios.
type OwnLoad struct {
	Name     string          `json:"name"`
	Gateway  etcdload.Window `json:"gateway"`
	Etcd     etcdload.Window `json:"etcd"`
	Ratio    float64         `json:"ratio"`
	P50Ratio float64         `json:"p50_ratio"`
}

// OwnResult is the result of a comparison.
type OwnResult struct {
	Loads  []OwnLoad `json:"loads"`
	Prefix string    `json:"prefix"`
	// Cached is how many of the hot keys a gateway has in the chain at the end. Reason says why one is not.
	Cached  int    `json:"cached"`
	HotKeys int    `json:"hot_keys"`
	Reason  string `json:"reason,omitempty"`
	Rounds  int    `json:"rounds"`
	Clients int    `json:"clients"`
	Seed    uint64 `json:"seed"`
}

// own is a running comparison.
type own struct {
	*Own
	prefix string
	sides  [2][]*clientv3.Client // of the gateways, and of etcd
}

// Run measures, and deletes its keys, however it ends. No client of etcd writes a key that a gateway may cache: what is written
// straight to etcd is read by nobody.
func (o *Own) Run(ctx context.Context) (_ *OwnResult, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var name [8]byte
	rand.Read(name[:]) // never fails
	b := &own{Own: o, prefix: ownPrefix + hex.EncodeToString(name[:]) + "/"}
	defer b.hangUp()
	for side, endpoints := range [][]string{o.Gateways.Gateways, o.Etcd} {
		for range o.Conns {
			c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: dialWithin, TLS: o.TLS, Logger: zap.NewNop()})
			if err != nil {
				return nil, fmt.Errorf("connect to %s: %w", strings.Join(endpoints, ", "), err)
			}
			b.sides[side] = append(b.sides[side], c)
		}
	}
	if err := b.sameEtcd(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.tidy(ctx)) }()
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	return b.measure(ctx)
}

func (b *own) say(step string) {
	if b.Progress != nil {
		b.Progress(step)
	}
}

func (b *own) hangUp() {
	for _, c := range slices.Concat(b.sides[0], b.sides[1]) {
		_ = c.Close() // its error only reports that the connection is gone
	}
}

// sameEtcd refuses gateways of another etcd.
func (b *own) sameEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	var clusters [2]uint64
	for side, what := range []string{"gateways", "etcd"} {
		r, err := b.sides[side][0].Get(ctx, b.prefix)
		if err != nil {
			return fmt.Errorf("the %s at %s: %w", what, strings.Join(b.sides[side][0].Endpoints(), ", "), unanswered(err))
		}
		clusters[side] = r.Header.ClusterId
	}
	if clusters[0] != clusters[1] {
		return Refuse("--gateways serve the etcd cluster %x, and --etcd-endpoints is %x", clusters[0], clusters[1])
	}
	return nil
}

// unanswered replaces the words of etcd's client for a server that does not answer.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errNoAnswer
	}
	return err
}

var errNoAnswer = errors.New("no answer in time: are they running, and are their schemes and certificates right?")

func (b *own) hot(i int) string { return fmt.Sprintf("%shot/%d", b.prefix, i) }

// written is a key that only clients of one side write.
func (b *own) written(side, i int) string { return fmt.Sprintf("%swritten-%d/%d", b.prefix, side, i) }

func (b *own) fill(ctx context.Context) error {
	b.say("writing keys below " + b.prefix)
	value := strings.Repeat("v", b.ValueBytes)
	for i := range b.HotKeys {
		if _, err := b.sides[0][0].Put(ctx, b.hot(i), value); err != nil {
			return err
		}
	}
	for side := range b.sides {
		for i := range b.Keys {
			if _, err := b.sides[side][0].Put(ctx, b.written(side, i), value); err != nil {
				return err
			}
		}
	}
	return nil
}

// tidy deletes all keys through a gateway, because gateways may cache them.
func (b *own) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
	defer cancel()
	if _, err := b.sides[0][0].Delete(ctx, b.prefix, clientv3.WithPrefix()); err != nil {
		return &LeftError{b.prefix, err}
	}
	return nil
}

func (b *own) loads(side int) []etcdload.Load {
	value := strings.Repeat("v", b.ValueBytes)
	written := func(random *mathrand.Rand) string { return b.written(side, random.IntN(b.Keys)) }
	return []etcdload.Load{
		{Name: hotRange, Key: func(random *mathrand.Rand) string { return b.hot(random.IntN(b.HotKeys)) }},
		{Name: coldPut, Writes: 1, Key: written, Value: value},
		{Name: coldTxn, Writes: 1, Txn: true, Key: written, Value: value},
	}
}

func (b *own) measure(ctx context.Context) (*OwnResult, error) {
	plan := etcdload.Plan{Clients: b.Clients, Seconds: b.Seconds, Seed: b.Seed}
	loads := [2][]etcdload.Load{b.loads(0), b.loads(1)}
	b.say("reading until the gateways have chosen")
	if _, err := plan.Run(ctx, b.sides[0], &loads[0][0], -1); err != nil {
		return nil, err
	}
	rounds := make([][]Pair, len(loads[0]))
	for round := range b.Rounds {
		for i := range rounds {
			b.say(fmt.Sprintf("round %d of %d: %s", round+1, b.Rounds, loads[0][i].Name))
			var windows [2]etcdload.Window
			for turn := range 2 {
				side := (turn + round) % 2
				var err error
				if windows[side], err = plan.Run(ctx, b.sides[side], &loads[side][i], round); err != nil {
					return nil, err
				}
			}
			rounds[i] = append(rounds[i], Pair{Window{Window: windows[0]}, Window{Window: windows[1]}})
		}
	}
	r := &OwnResult{Prefix: b.prefix, HotKeys: b.HotKeys, Rounds: b.Rounds, Clients: b.Clients, Seed: b.Seed}
	for i, pairs := range rounds {
		all := Ratios{Loads: []Load{{Name: loads[0][i].Name, Rounds: pairs}}}
		all.summarise()
		l := &all.Loads[0]
		r.Loads = append(r.Loads, OwnLoad{l.Name, l.Gateway.Window, l.Etcd.Window, l.Ratio, l.P50Ratio})
	}
	b.explain(ctx, r)
	return r, nil
}

// explain asks the gateways which hot keys they cache.
func (b *own) explain(ctx context.Context, r *OwnResult) {
	for i := range b.HotKeys {
		list, _, err := b.Gateways.Explain(ctx, b.hot(i))
		switch at := slices.IndexFunc(list, func(e pages.Explained) bool { return e.Placed }); {
		case err != nil:
			r.Reason = err.Error()
			return
		case at >= 0:
			r.Cached++
		case len(list) > 0:
			r.Reason = list[0].Reason
		}
	}
}

// Table returns one row per load.
func (r *OwnResult) Table() ([]string, [][]string) {
	header := []string{"load", "gateway/s", "etcd/s", "ratio", "gateway p50 ms", "etcd p50 ms", "ratio", "gateway p99 ms",
		"etcd p99 ms", "errors"}
	var rows [][]string
	for _, l := range r.Loads {
		rows = append(rows, []string{
			l.Name, fmt.Sprintf("%.0f", l.Gateway.PerSecond), fmt.Sprintf("%.0f", l.Etcd.PerSecond), fmt.Sprintf("%.2f", l.Ratio),
			fmt.Sprintf("%.2f", l.Gateway.P50ms), fmt.Sprintf("%.2f", l.Etcd.P50ms), fmt.Sprintf("%.2f", l.P50Ratio),
			fmt.Sprintf("%.2f", l.Gateway.P99ms), fmt.Sprintf("%.2f", l.Etcd.P99ms), fmt.Sprint(l.Gateway.Errors + l.Etcd.Errors),
		})
	}
	return header, rows
}

// Summary describes the comparison.
func (r *OwnResult) Summary() string {
	text := fmt.Sprintf("%d of %d hot keys are cached.", r.Cached, r.HotKeys)
	if r.Reason != "" {
		text += " Others are not: " + r.Reason + "."
	}
	return text + fmt.Sprintf("\n%d clients; medians of %d interleaved rounds; seed %d. The keys below %s are deleted.",
		r.Clients, r.Rounds, r.Seed, r.Prefix)
}
