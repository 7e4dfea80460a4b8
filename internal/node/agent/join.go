package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Join holds the cluster that a node joins, and the node's registration there.
type Join struct {
	Controllers []string // TCP addresses of some; the others are learned from them
	Labels      map[string]string
	Capacity    uint32 // share of the shards, relative to other nodes
	CopyKiBs    uint32 // limit of the rate of copies from one node, in KiB/s; 0: none
	Identity    Identity
	DialOptions []grpc.DialOption // towards controllers and other agents, such as credentials
	// Remember keeps a new identity for as long as the plane may outlive this process; nil: it does not.
	Remember func(note []byte) error
}

// Identity identifies a node again when its agent restarts and its plane lived on.
type Identity struct {
	Cluster     string `json:"cluster"`
	Node        uint32 `json:"node"`
	Incarnation uint64 `json:"incarnation"`
	Term        uint64 `json:"term"` // of the newest leader whose orders were applied (C5)
	Shards      int    `json:"shards"`
	CellBytes   int    `json:"cell_bytes"`
	// Tags is the phase that the plane is in, and TagsSince when it began (T6).
	Tags      wire.Tags `json:"tag_phase,omitempty"`
	TagsSince uint64    `json:"tags_since,omitempty"`
	Kept      bool      `json:"-"` // it was remembered: the plane has state of that time
}

// NewIdentity is that of a node that starts with nothing.
func NewIdentity() Identity { return Identity{Incarnation: rand.Uint64() | 1} }

// ParseIdentity parses the identity that [Join.Remember] kept.
func ParseIdentity(note []byte) (Identity, error) {
	var id Identity
	if err := json.Unmarshal(note, &id); err != nil {
		return id, fmt.Errorf("what the node remembers of its cluster cannot be read: %w", err)
	}
	id.Kept = true
	return id, nil
}

// membership is a node's part in a cluster that controllers run.
type membership struct {
	join  Join
	name  string
	plane dataplane.Plane
	log   *slog.Logger
	api   func() string

	status  atomic.Pointer[reconfig.Heartbeat] // content of the next heartbeat; sending one waits for nothing
	every   atomic.Int64                       // time between two heartbeats
	news    chan struct{}                      // there is something that should not wait for the next heartbeat
	ordered chan struct{}                      // newest changed
	applied chan struct{}                      // an order was
	leaving departure
	relay   mapRelay

	heartKey wire.Secret
	hearting sync.Mutex
	heart    chain.Heart                  // as the plane was told
	keys     atomic.Pointer[wire.Keyring] // of a cluster with tags
	tags     tagging
	set      following
	urgent   atomic.Int32 // urgent copies to or from this node, and preparations of such: collecting waits for them

	sweeper *sweeper // makes room for sessions
	copied  copyTally

	leasing sync.Mutex
	lease   reconfig.Lease

	listening sync.Mutex
	newest    *reconfig.Order // not yet applied
	links     map[string]*link

	applying sync.Mutex // guards the fields below; its holder may wait for the plane
	identity Identity
	member   *reconfig.Member
	wiping   bool
	copies   map[uint64]context.CancelFunc
	sessions remembered
	// objects without a version of shards that the node left and keeps, where it has looked
	empty map[uint16][]wire.Key
	start func(func(context.Context)) context.CancelFunc // runs something until it is stopped, or the agent is
}

// defaultHeartbeat is the time between two heartbeats until a controller says another.
const defaultHeartbeat = 10 * time.Millisecond

func newMembership(o *Options, log *slog.Logger, api func() string, sessions *sweeper) (*membership, error) {
	info := o.Plane.Info()
	id := o.Join.Identity
	if id.Shards != info.Options.Shards || id.CellBytes != info.Options.CellBytes {
		return nil, fmt.Errorf("cluster %s has %d shards and values of up to %d bytes, but the data plane was made for %d and %d",
			id.Cluster, id.Shards, id.CellBytes, info.Options.Shards, info.Options.CellBytes)
	}
	member, err := reconfig.NewMember(o.Plane, reconfig.MemberOptions{
		Self: info.Addr, Shards: info.Options.Shards, Kept: id.Kept, Term: id.Term,
	})
	if err != nil {
		return nil, err
	}
	m := &membership{
		join: *o.Join, name: o.Name, plane: o.Plane, log: log, api: api, identity: id, member: member,
		heartKey: newHeartKey(), news: make(chan struct{}, 1),
		ordered: make(chan struct{}, 1), applied: make(chan struct{}, 1),
		leaving: departure{released: make(chan struct{}, 1)},
		sweeper: sessions, links: make(map[string]*link), copies: make(map[uint64]context.CancelFunc),
		empty: make(map[uint16][]wire.Key), sessions: newRemembered(),
	}
	m.every.Store(int64(defaultHeartbeat))
	m.tags.begin(&id, info.NoTags)
	m.relay.over, m.relay.changed = make(chan struct{}), make(chan struct{})
	m.publish()
	return m, m.remember(id)
}

// checkUnclaimed refuses a data plane of another cluster: a node that joins begins without state.
func (a *Agent) checkUnclaimed(id Identity) error {
	if id.Kept {
		return nil
	}
	taken, err := a.hasState()
	if err == nil && taken {
		return errors.New("the data plane lives on from another cluster, which no controllers run: end it with `netcraq node --remove`, " +
			"which deletes what it stores")
	}
	return err
}

// remember keeps the identity before anything is done that depends on it.
func (m *membership) remember(id Identity) error {
	m.identity = id
	if m.join.Remember == nil {
		return nil
	}
	note, err := json.Marshal(id)
	if err == nil {
		err = m.join.Remember(note)
	}
	if err != nil {
		return fmt.Errorf("keeping the node's identity: %w", err)
	}
	return nil
}

// serve takes part until ctx ends.
func (m *membership) serve(ctx context.Context) error {
	context.AfterFunc(ctx, func() { close(m.relay.over) })
	group, ctx := errgroup.WithContext(ctx)
	m.start = func(do func(context.Context)) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		group.Go(func() error { defer stop(); do(ctx); return nil })
		return stop
	}
	m.start(m.heartbeat)
	m.start(m.applyOrders)
	m.start(m.tellLoad)
	m.start(m.keepTags)
	m.start(m.collect)
	m.start(func(ctx context.Context) { m.relay.run(ctx, m) })
	m.start(func(ctx context.Context) { // so that the group does not end before ctx does
		m.applying.Lock()
		m.work()
		m.applying.Unlock()
		<-ctx.Done()
	})
	m.call(m.join.Controllers)
	return group.Wait()
}

// call keeps membership streams to these controllers, and to no others.
func (m *membership) call(controllers []string) {
	m.listening.Lock()
	defer m.listening.Unlock()
	for address, l := range m.links {
		if !slices.Contains(controllers, address) {
			l.end()
			delete(m.links, address)
		}
	}
	for _, address := range controllers {
		if m.links[address] == nil {
			l := &link{membership: m, address: address, wake: make(chan struct{}, 1), granter: -1}
			l.end = m.start(l.run)
			m.links[address] = l
		}
	}
}

// callAgain calls, beside the controllers that the node knows, those that it was started with, when none welcomes it:
// the cluster may have moved.
func (m *membership) callAgain() {
	var known []string
	for _, l := range m.allLinks() {
		if l.welcomedBy() != "" {
			return
		}
		known = append(known, l.address)
	}
	for _, address := range m.join.Controllers {
		if !slices.Contains(known, address) {
			known = append(known, address)
		}
	}
	m.call(known)
}

// allLinks are those to the controllers' links, by address.
func (m *membership) allLinks() []*link {
	m.listening.Lock()
	defer m.listening.Unlock()
	links := make([]*link, 0, len(m.links))
	for _, l := range m.links {
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b *link) int { return strings.Compare(a.address, b.address) })
	return links
}

// tell queues a message for every controller.
func (m *membership) tell(message *controllerv1.NodeMessage) {
	for _, l := range m.allLinks() {
		l.send(message)
	}
}

// welcomed handles a controller's welcome.
func (m *membership) welcomed(w *controllerv1.Welcome) {
	if every := time.Duration(w.GetBeatUs()) * time.Microsecond; every > 0 {
		m.every.Store(int64(every))
	}
	m.tags.tell(wire.Tags(w.GetTagPhase()), w.GetTagsSince())
	m.applying.Lock()
	if id := m.identity; w.GetNode() != 0 && id.Node != w.GetNode() {
		id.Node = w.GetNode()
		if err := m.remember(id); err != nil {
			m.log.Error("the node may not be known again when its agent restarts", "error", err)
		}
	}
	m.applying.Unlock()
	if connected, news := m.set.tell(w); news {
		m.call(connected)
	}
}
