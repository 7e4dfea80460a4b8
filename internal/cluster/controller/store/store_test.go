package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// patience bounds each wait of a test.
const patience = 20 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// freePort returns an unused TCP address of loopback.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.1.9.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// alone is an etcd of one member.
func alone(t *testing.T) *Embedded {
	t.Helper()
	return &Embedded{Name: "c1", Dir: t.TempDir(), Peers: map[string]string{"c1": freePort(t)}, Client: freePort(t)}
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	o.Log = quiet
	if o.Cluster == "" {
		o.Cluster = "test"
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var defaults = Formation{
	Settings: reconfig.Settings{
		Cluster: "c0ffee", Shards: 256, Replicas: 3, Spread: "zone", CellBytes: 64,
		Heartbeat: 10 * time.Millisecond, Lease: 60 * time.Millisecond, Suspect: 40 * time.Millisecond,
		LeaseMax: 600 * time.Millisecond, SuspectMax: 700 * time.Millisecond, Sure: 3 * time.Second,
	},
	Controllers: reconfig.FormedControllers("127.0.0.1:4413"), FormWith: 3,
}

func form(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Form(within(t), Formation{}, defaults); err != nil {
		t.Fatal(err)
	}
}

func lead(t *testing.T, s *Store, over uint64) *Leadership {
	t.Helper()
	l, err := s.Claim(within(t), over, "127.0.0.1:4413")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// recorder is a follower that passes on its calls.
type recorder struct {
	loaded  chan *reconfig.State
	changed chan reconfig.Change
	led     chan Leader
	keyed   chan *wire.Keyring
}

func newRecorder() *recorder {
	const room = 100
	return &recorder{
		make(chan *reconfig.State, room), make(chan reconfig.Change, room), make(chan Leader, room),
		make(chan *wire.Keyring, room),
	}
}

func follow(t *testing.T, s *Store) *recorder {
	t.Helper()
	r := newRecorder()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- s.Follow(ctx, r) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *recorder) Loaded(_ Formation, s *reconfig.State) { r.loaded <- s }
func (r *recorder) Changed(c reconfig.Change)             { r.changed <- c }
func (r *recorder) Keyed(k *wire.Keyring)                 { r.keyed <- k }
func (r *recorder) Led(l Leader)                          { r.led <- l }

func next[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-within(t).Done():
		var none T
		t.Fatalf("no %T came", none)
		return none
	}
}

func node(id reconfig.NodeID) reconfig.Node {
	return reconfig.Node{
		ID: id, Name: "n", Addr: netip.MustParseAddrPort("192.0.2.1:4411"), API: "192.0.2.1:4412", Labels: map[string]string{"zone": "a"},
		Capacity: 100, Incarnation: 1<<63 + 7, Standing: reconfig.Fenced, FencedBy: 9,
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	e := alone(t)
	s := open(t, Options{Embedded: e})
	form(t, s)
	r := follow(t, s)
	next(t, r.loaded)
	l := lead(t, s, 0)
	change := reconfig.Change{
		Number: l.State.Change + 1, Nodes: []reconfig.Node{node(1), node(2)}, Replicas: 2,
		Controllers: reconfig.ControllerSet{
			Members: []reconfig.Controller{{Name: "c1", Address: "127.0.0.1:4413", Peer: "127.0.0.1:4414"}},
			Joining: reconfig.Controller{Name: "c2", Address: "127.0.0.2:4413", Peer: "127.0.0.2:4414"},
			Leaving: reconfig.Controller{Name: "c3", Address: "127.0.0.3:4413"}, Since: l.State.Change + 1,
		},
		Shards: map[uint16]reconfig.Shard{0: {Epoch: 3, Members: []reconfig.NodeID{1, 2}, Learner: 2},
			255: {Epoch: 1, Members: []reconfig.NodeID{2}, FrozenFor: 1, Extra: 2, Lost: true, Born: 1}},
	}
	if err := l.Apply(within(t), change); err != nil {
		t.Fatal(err)
	}
	if c := next(t, r.changed); c.Number != l.State.Change || len(c.Nodes)+len(c.Shards) > 0 {
		t.Errorf("the first change of a leader is empty: %v", c)
	}
	told := next(t, r.changed)
	if told.Number != change.Number || told.Replicas != 2 || !cmp.Equal(told.Controllers, change.Controllers) || len(told.Nodes) != 2 ||
		!cmp.Equal(told.Shards[0], change.Shards[0]) || !cmp.Equal(told.Shards[255], change.Shards[255]) {
		t.Errorf("followers are told %v, not %v", told, change)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again := open(t, Options{Embedded: e})
	state := lead(t, again, 0).State
	want := reconfig.State{Settings: defaults.Settings, Nodes: map[reconfig.NodeID]*reconfig.Node{},
		Shards: make([]reconfig.Shard, 256), Change: change.Number + 1, Controllers: change.Controllers}
	for _, n := range change.Nodes {
		want.Nodes[n.ID] = &n
	}
	want.Settings.Replicas = change.Replicas
	want.Shards[0], want.Shards[255] = change.Shards[0], change.Shards[255]
	if diff := cmp.Diff(want, state, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestStaleLeaderWritesNothing(t *testing.T) {
	e := alone(t)
	first := open(t, Options{Embedded: e})
	form(t, first)
	second := open(t, Options{Endpoints: []string{"http://" + e.Client}})
	r := follow(t, second)
	next(t, r.loaded)
	next(t, r.led)
	old := lead(t, first, 0)
	if _, err := second.Claim(within(t), 0, "other"); !errors.Is(err, ErrTaken) {
		t.Errorf("two leaders: %v", err)
	}
	led := next(t, r.led)
	if led.Term != old.Term || led.Address != "127.0.0.1:4413" {
		t.Errorf("%v leads, not term %d", led, old.Term)
	}
	successor, err := second.Claim(within(t), led.Term, "other")
	if err != nil {
		t.Fatal(err)
	}
	if successor.Term <= old.Term || successor.State.Change != old.State.Change+1 {
		t.Errorf("term %d, change %d after %d, %d", successor.Term, successor.State.Change, old.Term, old.State.Change)
	}
	stale := reconfig.Change{Number: old.State.Change + 1, Nodes: []reconfig.Node{node(1)}}
	if err := old.Apply(within(t), stale); !errors.Is(err, ErrDeposed) {
		t.Errorf("a stale leader writes: %v", err)
	}
	if state := lead(t, first, successor.Term).State; len(state.Nodes) > 0 {
		t.Error("what a stale leader wrote is there")
	}
}

// TestChangeOfManyTransactions writes more pages than fit into one, twice: the second time as if the answer had been lost.
func TestChangeOfManyTransactions(t *testing.T) {
	s := open(t, Options{Embedded: alone(t)})
	big := defaults
	big.Settings.Shards = 65536
	if _, err := s.Form(within(t), Formation{}, big); err != nil {
		t.Fatal(err)
	}
	r := follow(t, s)
	l := lead(t, s, 0)
	change := reconfig.Change{Number: l.State.Change + 1, Nodes: []reconfig.Node{node(1)}, Shards: map[uint16]reconfig.Shard{}}
	for i := range 65536 {
		change.Shards[uint16(i)] = reconfig.Shard{Epoch: 1, Members: []reconfig.NodeID{1}}
	}
	before := l.change
	for range 2 {
		if err := l.Apply(within(t), change); err != nil {
			t.Fatal(err)
		}
		l.change = before
	}
	for told := range r.changed {
		if told.Number != change.Number {
			continue
		}
		if len(told.Shards) != 65536 || len(told.Nodes) != 1 {
			t.Errorf("followers are told of %d shards, %d nodes", len(told.Shards), len(told.Nodes))
		}
		break
	}
}

func TestLeadershipEndsWithItsController(t *testing.T) {
	e := alone(t)
	host := open(t, Options{Embedded: e})
	form(t, host)
	guest := open(t, Options{Endpoints: []string{e.Client}})
	l := lead(t, guest, 0)
	r := follow(t, host)
	if led := next(t, r.led); led.Term != l.Term {
		t.Errorf("%v leads", led)
	}
	if err := guest.Close(); err != nil {
		t.Error(err)
	}
	if led := next(t, r.led); led.Term != 0 {
		t.Errorf("%v leads though its controller is gone", led)
	}
}

func TestTwoClustersOnOneEtcd(t *testing.T) {
	e := alone(t)
	first := open(t, Options{Embedded: e})
	form(t, first)
	same := open(t, Options{Endpoints: []string{e.Client}})
	_, err := same.Form(within(t), Formation{Controllers: reconfig.FormedControllers("192.0.2.9:4413")}, defaults)
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "--cluster") {
		t.Errorf("another cluster's place: %v", err)
	}
	_, err = same.Form(within(t), Formation{Settings: reconfig.Settings{Shards: 512, Lease: time.Second}}, defaults)
	if err == nil || !strings.Contains(err.Error(), "--shards is 256, not 512; --lease is 60ms, not 1s") {
		t.Errorf("other settings: %v", err)
	}
	other := open(t, Options{Cluster: "other", Endpoints: []string{e.Client}})
	if _, err := other.Form(within(t), Formation{Controllers: reconfig.FormedControllers("192.0.2.9:4413")}, defaults); err != nil {
		t.Error(err)
	}
	lead(t, first, 0)
	lead(t, other, 0)
}

func TestForeignAndNewerData(t *testing.T) {
	e := alone(t)
	s := open(t, Options{Embedded: e})
	for _, bad := range []struct {
		key, value string
		want       error
	}{
		{"/netcraq/a/page/0", `{"version":1,"shards":[]}`, ErrForeign},
		{"/netcraq/b/settings", `{"version":6}`, ErrNewer},
		{"/netcraq/c/else", `{"version":1}`, ErrForeign},
	} {
		if _, err := s.client.Put(within(t), bad.key, bad.value); err != nil {
			t.Fatal(err)
		}
		name := strings.Split(bad.key, "/")[2]
		if _, err := open(t, Options{Cluster: name, Endpoints: []string{e.Client}}).Form(within(t), Formation{},
			defaults); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v, want %v", bad.key, err, bad.want)
		}
	}
}

// TestFullEtcd raises the alarm that a full etcd raises: writes wait, and go on when it is over.
func TestFullEtcd(t *testing.T) {
	e := alone(t)
	s := open(t, Options{Embedded: e})
	form(t, s)
	l := lead(t, s, 0)
	member := uint64(s.server.etcd.Server.MemberID())
	raise(t, s, member)
	written := make(chan error, 1)
	ctx := within(t)
	go func() {
		written <- l.Apply(ctx, reconfig.Change{Number: l.State.Change + 1, Nodes: []reconfig.Node{node(1)}})
	}()
	for tick := time.Tick(time.Millisecond); !strings.Contains(s.Trouble(), "NOSPACE"); <-tick {
		if ctx.Err() != nil {
			t.Fatalf("trouble is %q", s.Trouble())
		}
	}
	if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if err := next(t, written); err != nil {
		t.Error(err)
	}
	if s.Trouble() != "" {
		t.Errorf("trouble remains: %s", s.Trouble())
	}
}

func TestDirectoryInUse(t *testing.T) {
	e := alone(t)
	open(t, Options{Embedded: e})
	_, err := Open(Options{Cluster: "test", Embedded: &Embedded{Name: "c1", Dir: e.Dir,
		Peers: map[string]string{"c1": freePort(t)}}, Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("two controllers in one directory: %v", err)
	}
}

// TestClaimOutlivesItsLease claims with a lease that has just run out, as after a long stall of etcd's disk.
func TestClaimOutlivesItsLease(t *testing.T) {
	s := open(t, Options{Embedded: alone(t)})
	form(t, s)
	lease, err := s.session.current(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Revoke(within(t), lease); err != nil {
		t.Fatal(err)
	}
	s.session.set(lease) // whether or not the session has noticed
	lead(t, s, 0)
}

// TestDirectoryThatCannotBeMade: the error names the flag.
func TestDirectoryThatCannotBeMade(t *testing.T) {
	_, err := lockDir("/proc/netcraq")
	if err == nil || !strings.HasPrefix(err.Error(), "--data-dir /proc/netcraq cannot be made: ") {
		t.Error(err)
	}
}
