package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/packing"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// identifyWithin bounds one try to learn which etcd this is.
const identifyWithin = time.Second

var errNotAsked = errors.New("etcd does not answer")

// Start brings a gateway up. It serves at once; reads are answered from the chain as keys are placed. An etcd that does not
// take the gateway's own keys yet, because it has no leader for instance, is asked again in the background. Until then
// the rules of [core.Gateway.IfUnplaced] hold. Start returns an error only if another try would not help.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	var name [8]byte
	rand.Read(name[:]) // never fails
	e := &Engine{
		o: o, txns: NewTxns(o.Etcd), gone: make(chan struct{}), failed: make(chan error, 1), identified: make(chan struct{}),
		replies: make(map[uint64]chan core.Reply), reveals: make(map[uint64]chan struct{}),
		calls: make(map[uint64]time.Time), leases: make(map[string]*lease),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.ended, e.closed = context.WithCancel(context.Background())
	e.open = make(chan struct{})
	e.usage.init()
	e.places.init()
	e.packing.set = packing.New()
	e.core = core.New(core.Options{Name: hex.EncodeToString(name[:]), Prefix: OwnPrefix, About: o.About, Alive: e.alive, Lasts: e.inTime, Recent: e.recent})
	e.auth = newAuthentication(o.Lease)
	err, asked := errNotAsked, bootTime()
	if !o.Later {
		err = e.tryIdentify(ctx)
	}
	switch {
	case err == nil:
		e.begin()
	case errors.Is(err, ErrAuth):
		e.withdraw(err, asked)
	case final(err):
		e.Close()
		return nil, err
	case errors.Is(err, ErrNoChain):
		o.Log.Warn("nothing is cached until the chain answers", "reason", err)
		e.tasks.Go(e.keepIdentifying)
	default:
		o.Log.Warn("etcd does not take the gateway's own keys yet: nothing is cached until it does", "reason", err)
		e.tasks.Go(e.keepIdentifying)
	}
	return e, nil
}

// begin starts the work on an etcd that is identified.
func (e *Engine) begin() {
	e.do(func(g *core.Gateway) {
		g.Within(e.timeline)
		g.Start()
	})
	e.tasks.Go(e.tick)
	e.tasks.Go(e.choose)
	if e.o.Nodes != nil {
		e.tasks.Go(e.askNodes)
	}
	e.tasks.Go(e.audit)
}

// final reports whether another try to identify etcd would not help.
func final(err error) bool { return errors.Is(err, ErrAuth) || errors.Is(err, ErrOtherChain) }

// keepIdentifying tries to identify etcd until it succeeds or would never.
func (e *Engine) keepIdentifying() {
	for pauses := retry.Between(tick, identifyWithin); pauses.Wait(e.ctx); {
		asked := bootTime()
		err := e.tryIdentify(e.ctx)
		switch {
		case err == nil:
			e.o.Log.Info("the gateway has its own keys in etcd: keys are cached from now on")
			e.begin()
			return
		case errors.Is(err, ErrAuth):
			e.withdraw(err, asked)
			return
		case final(err):
			e.failed <- err
			return
		}
	}
}

// Failed receives the error of a gateway that has to end: it was started for another chain than etcd's other gateways.
func (e *Engine) Failed() <-chan error { return e.failed }

// tryIdentify tries once to identify etcd.
func (e *Engine) tryIdentify(ctx context.Context) error {
	e.mu.Lock()
	name := e.o.ChainName
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, identifyWithin)
	defer cancel()
	var etcd identity
	err := e.mayBegin(ctx)
	if err == nil {
		etcd, err = identify(ctx, e.o.Etcd, name)
	}
	if err != nil {
		e.trouble.note(err)
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.o.ChainName != name { // it became known meanwhile
		if err := etcd.sameChain(chainValue(e.o.ChainName)); err != nil {
			return err
		}
	}
	e.identity, e.store = etcd, objects.New(e.o.Chain, e.o.Nearby, storePrefix(etcd.cluster, etcd.timeline))
	close(e.identified)
	return nil
}

// isIdentified reports whether identity and store are valid.
func (e *Engine) isIdentified() bool {
	select {
	case <-e.identified:
		return true
	default:
		return false
	}
}

// identity names the etcd cluster that a gateway caches, and the chain that has the objects.
type identity struct {
	cluster  uint64 // etcd's number
	timeline string // of its history
	chain    string // name of the chain of all its gateways, with the format of the directory
}

// ErrOtherChain says that two chains cannot cache one etcd.
var ErrOtherChain = errors.New("gateways of another chain, or another release, use this etcd")

// ErrNoChain says that the name of the chain is needed: no gateway has used this etcd before. It is written once the chain
// is reached; until then the gateway serves as one without a session.
var ErrNoChain = errors.New("the chain cannot be reached, and no gateway has used this etcd before")

// errNoName says that gateways are there, and the name of their chain is not. Each writes it again before its session counts
// as extended.
var errNoName = fmt.Errorf("somebody deleted %s in etcd; running gateways write it again", chainKey)

// identify checks that all gateways of an etcd have the same chain. Without a name it takes the one that another gateway
// has written.
func identify(ctx context.Context, conn *grpc.ClientConn, chain string) (etcd identity, err error) {
	ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	key, value := []byte(chainKey), chainValue(chain)
	get, getTimeline := read(&pb.RangeRequest{Key: key}), read(&pb.RangeRequest{Key: []byte(timelineKey)})
	t := &pb.TxnRequest{Success: []*pb.RequestOp{getTimeline, get}}
	answer, err := ask(ctx, conn, t)
	if err == nil && len(answer.Responses[1].GetResponseRange().GetKvs()) == 0 && chain != "" {
		// Only now it writes, since an etcd without space refuses that.
		put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte(value)}}}
		none := core.NoSession(OwnPrefix)
		t.Compare = []*pb.Compare{compare(&core.Cond{Key: chainKey, Kind: core.CreateIs}), compare(&none)}
		t.Success, t.Failure = append([]*pb.RequestOp{put}, t.Success...), t.Success
		answer, err = ask(ctx, conn, t)
	}
	switch {
	case unauthorized(err):
		return etcd, ErrAuth
	case err != nil:
		return etcd, fmt.Errorf("etcd does not take the gateway's own keys below %s: %w", OwnPrefix, err)
	}
	last := len(answer.Responses) - 1
	etcd.timeline = valueIn(answer.Responses[last-1].GetResponseRange())
	etcd.chain = valueIn(answer.Responses[last].GetResponseRange())
	etcd.cluster = answer.Header.ClusterId
	switch {
	case chain == "" && etcd.chain == "":
		return etcd, ErrNoChain
	case etcd.chain == "":
		return etcd, errNoName
	case chain == "" && strings.HasPrefix(etcd.chain, chainValue("")):
		return etcd, nil
	}
	return etcd, etcd.sameChain(value)
}

// ask executes a transaction that may be repeated. It waits while etcd changes its leader.
func ask(ctx context.Context, conn *grpc.ClientConn, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	for pauses := retry.Between(tick, time.Second); ; {
		answer, err := pb.NewKVClient(conn).Txn(ctx, t, grpc.WaitForReady(true))
		if status.Code(err) != codes.Unavailable || !pauses.Wait(ctx) {
			return answer, err
		}
	}
}

// chainValue is how the name of a chain is written in etcd.
func chainValue(name string) string { return DirectoryFormat + " " + name }

// sameChain refuses another chain than the one of etcd's other gateways.
func (i *identity) sameChain(value string) error {
	if i.chain == value {
		return nil
	}
	return fmt.Errorf("%w: its key %s is %q, this gateway's is %q. End those gateways and delete the keys below %s, "+
		"or use the same chain", ErrOtherChain, chainKey, i.chain, value, OwnPrefix)
}

// NameChain checks the name of a chain that became known only after the start. The gateway must not use the chain if it
// returns an error.
func (e *Engine) NameChain(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.o.ChainName = name
	if !e.isIdentified() {
		return nil // the next try checks it
	}
	return e.sameChain(chainValue(name))
}
