package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Options are fixed for a gateway's life.
type Options struct {
	Name    string // unique among all gateways that ever used this etcd
	Prefix  string // of the gateways' own keys in etcd
	About   string // the gateway, for operators: the value of its session's key
	Without Rule   // rules switched off; zero outside tests
	// Alive reports whether the session's lease lasts for certain. Without it no read is answered from the chain. nil: it
	// always does.
	Alive func() bool
	// Lasts reports [Tenure.Lasts] of the newest session. nil: it always lasts.
	Lasts func() bool
	// Recent reports whether the last [Gateway.Looked] was less than a session's lifetime ago. nil: it always was.
	Recent func() bool
}

// Gateway is one gateway. The zero value is not usable: see [New].
type Gateway struct {
	options  Options
	names    names
	effects  []Effect
	calls    map[uint64]func(Answer)
	returns  map[uint64]func(*Result)
	last     uint64 // number of the last call
	life     *life
	lives    int
	waiting  []func() // writes that wait for a session
	push     pushing
	timeline string // of etcd's history, in which sessions begin
	used     bool   // the gateway has had a session
	vacant   int64  // before: the mark of a [Vacancy] under which etcd is unused; 0: none is known
	looks    looks
	met      met
}

// life is the state of a gateway during one session. See [Gateway.CheckInvariants].
type life struct {
	lease       string // the session's, and its name
	create, mod int64  // revisions of the session key
	over        bool   // the session is certainly gone; it stays so
	serving     bool
	polls       []func() // checks for acknowledgements
	open        func()   // opens the session, without the rule that it comes first
	late        int      // ticks until then

	// The bit in objects. bitCreate is of the present binding.
	bit       uint8
	bitCreate int64 // create_revision of the key of its bit, since it is bound
	bound     bool  // it has its bit

	// The directory up to the revision seen, which only rises.
	placed  map[string]int64 // instances of placed keys
	seen    int64
	known   bool // the directory was that of the gateway's timeline, and open, since the session began
	closed  bool // no object is read any more
	unsure  bool // a client of etcd may have deleted entries; the gateway does not begin to serve
	free    bool // nothing is placed, so nothing has to be pushed; not while closed
	freeing bool

	// How far own writes follow the directory: acked <= follows <= seen, and foreign <= seen. changes, in the order of
	// their revisions, are those that not all do yet.
	changes []Change
	follows int64 // up to here all own writes follow the directory
	foreign int64 // the newest change for which another session may wait
	acked   int64 // up to here etcd knows that
	acking  bool

	// Writes under way are of this session. Each is in keys for each of its keys, those with spans also in ranged.
	keys    map[string]*own
	ranged  map[*write]bool
	unknown []*write // of unknown outcome, to be fenced
	fencing bool

	// By key, what is under way beside writes.
	suspects map[string]bool // keys with bits that may need a clean-up
	cleaning map[string]bool
	placing  map[string]bool
}

// An entry of the directory is the instance and the session that placed the key.
func entryOf(instance int64, session string) string {
	return strconv.FormatInt(instance, 10) + " " + session
}

// instanceIn reads the instance in an entry of the directory.
func instanceIn(value string) int64 {
	value, _, _ = strings.Cut(value, " ")
	instance, _ := strconv.ParseInt(value, 10, 64)
	return instance
}

// Owner is the session that placed the key of an entry of the directory.
func Owner(value string) string {
	_, owner, _ := strings.Cut(value, " ")
	return owner
}

// names are the gateways' own keys in etcd.
type names struct{ session, ack, bit, directory, count, chain, timeline, began string }

// Names of keys begin so, behind [Options.Prefix].
const (
	DirectoryPrefix = "directory/" // the placed key follows
	SessionPrefix   = "session/"   // the session follows
	ChainName       = "chain"      // names the chain of all gateways
)

func namesBelow(prefix string) names {
	return names{
		prefix + SessionPrefix, prefix + "ack/", prefix + "bit/", prefix + DirectoryPrefix, prefix + CountName,
		prefix + ChainName, prefix + TimelineName, prefix + "began",
	}
}

// New makes a gateway; [Gateway.Start] lets it begin.
func New(o Options) *Gateway {
	return &Gateway{
		options: o, names: namesBelow(o.Prefix), calls: make(map[uint64]func(Answer)), returns: make(map[uint64]func(*Result)),
		met: met{sessions: make(map[string]KV)},
	}
}

func (g *Gateway) on(r Rule) bool { return g.options.Without&r == 0 }

// Effects returns the pending effects and clears them. Call it after every other call.
func (g *Gateway) Effects() []Effect {
	effects := g.effects
	g.effects = nil
	return effects
}

func (g *Gateway) emit(e Effect) { g.effects = append(g.effects, e) }

func (g *Gateway) chain(op Op, then func(Answer)) {
	g.last++
	g.calls[g.last] = then
	g.emit(ChainCall{g.last, op})
}

func (g *Gateway) etcd(l *life, r Request, then func(*Result)) {
	g.last++
	g.returns[g.last] = then
	call := EtcdCall{ID: g.last, Request: r}
	if l != nil {
		call.Lease = l.lease
	}
	g.emit(call)
}

// surely repeats a request that may be executed twice until its outcome is known.
func (g *Gateway) surely(l *life, r Request, then func(*Result)) {
	g.etcd(l, r, func(result *Result) {
		if result.Unknown && (l == nil || !l.over) {
			g.surely(l, r, then)
			return
		}
		then(result)
	})
}

// Answered takes the answer to a [ChainCall].
func (g *Gateway) Answered(id uint64, a Answer) {
	if then := g.calls[id]; then != nil {
		delete(g.calls, id)
		then(a)
	}
}

// Returned takes the result of an [EtcdCall].
func (g *Gateway) Returned(id uint64, r *Result) {
	if then := g.returns[id]; then != nil {
		delete(g.returns, id)
		if !g.on(Leases) {
			r.forgetLeases()
		}
		then(r)
	}
}

// Lease is the lease that is to be kept alive; empty before [Gateway.Start].
func (g *Gateway) Lease() string {
	if g.life == nil {
		return ""
	}
	return g.life.lease
}

// Serving reports whether writes are taken now. Others wait.
func (g *Gateway) Serving() bool { return g.life != nil && g.life.serving }

// Start begins a life: a session first, then the directory, then a bit. A gateway that places a key lists the sessions after
// the directory has changed, so a gateway that is not in the list reads a directory that names the key.
func (g *Gateway) Start() {
	g.lives++
	l := &life{
		lease: fmt.Sprintf("%s.%d", g.options.Name, g.lives), keys: make(map[string]*own), suspects: make(map[string]bool),
		cleaning: make(map[string]bool), placing: make(map[string]bool), ranged: make(map[*write]bool),
	}
	g.life, g.push.done = l, 0 // what the chain had may be of another history
	ready := func() {
		g.emit(WatchDirectory{l.seen + 1})
		g.acknowledge(l)
		g.takeBit(l)
	}
	if g.on(SessionFirst) {
		g.openSession(l, func() { g.readDirectory(l, ready) })
	} else {
		g.readDirectory(l, func() { // the session comes late, so that tests notice
			l.open, l.late = func() { g.openSession(l, ready) }, 6
		})
	}
}

// enter takes an entry of the directory.
func (l *life) enter(key, value string) (instance int64) {
	instance = instanceIn(value)
	if instance == 0 {
		delete(l.placed, key)
		return 0
	}
	l.placed[key], l.free = instance, false
	return instance
}

func (g *Gateway) openSession(l *life, then func()) {
	key := g.names.session + l.lease
	r := Request{
		If:  append(g.inTimeline(), Cond{Key: key, Kind: CreateIs}),
		Put: []Put{{Key: key, Value: g.options.About, Session: true}, {Key: g.names.began, Value: l.lease}}, Get: []string{key},
	}
	g.surely(l, r, func(r *Result) {
		kv, ok := r.KVs[key]
		if l.over || !ok {
			g.lost(l)
			return
		}
		l.create, l.mod, g.used = kv.Create, kv.Mod, true
		g.pushAgain()
		then()
	})
}

func (g *Gateway) readDirectory(l *life, then func()) {
	g.surely(l, Request{Get: []string{g.names.count}, List: []string{g.names.directory}}, func(r *Result) {
		if l.over {
			return
		}
		l.empty()
		l.seen, l.foreign = r.Rev, r.Rev
		for _, key := range g.listed(r) {
			l.enter(key[len(g.names.directory):], r.KVs[key].Value)
		}
		_, l.known = g.open(r)
		l.unsure = !g.complete(r)
		l.closed = l.unsure
		then()
	})
}

// takeBit takes the first bit that no session has. Bits belong to the session's lease, so a bit is free only if its last owner's
// session has ended.
func (g *Gateway) takeBit(l *life) {
	g.surely(l, Request{List: []string{g.names.bit}}, func(r *Result) {
		if l.over {
			return
		}
		for bit := range uint8(MaxGateways) {
			key := g.bitKey(bit)
			if _, taken := r.KVs[key]; taken && r.KVs[key].Value != l.lease {
				continue
			}
			take := Request{
				If:  []Cond{{Key: key, Kind: CreateIs}, {Key: g.names.session + l.lease, Kind: CreateIs, Rev: l.create}},
				Put: []Put{{Key: key, Value: l.lease, Session: true}}, Get: []string{key, g.names.session + l.lease},
			}
			g.surely(l, take, func(r *Result) { g.tookBit(l, bit, r) })
			return
		}
		l.polls = append(l.polls, func() { g.takeBit(l) }) // 64 gateways are there already
	})
}

func (g *Gateway) tookBit(l *life, bit uint8, r *Result) {
	switch {
	case l.over:
	case r.KVs[g.names.session+l.lease].Create != l.create:
		g.lost(l)
	case r.KVs[g.bitKey(bit)].Value != l.lease:
		g.takeBit(l)
	default:
		l.bit, l.bitCreate, l.bound = bit, r.KVs[g.bitKey(bit)].Create, true
		g.serve(l)
	}
}

// serve takes writes, as soon as the gateway has a bit and knows all entries of the directory.
func (g *Gateway) serve(l *life) {
	if l.serving || !l.bound || l.unsure || l.over {
		return
	}
	l.serving = true
	waiting := g.waiting
	g.waiting = nil
	for _, begin := range waiting {
		begin()
	}
}

func (g *Gateway) bitKey(bit uint8) string { return fmt.Sprintf("%s%02d", g.names.bit, bit) }

// SessionLost says that a lease is gone.
func (g *Gateway) SessionLost(lease string) {
	if l := g.life; l != nil && l.lease == lease {
		g.lost(l)
	}
}

// lost ends a life whose session is certainly gone, so that none of its transactions can commit any more, and begins another.
func (g *Gateway) lost(l *life) {
	if l.over {
		return
	}
	l.over, l.serving = true, false
	g.emit(EndLease{l.lease})
	l.unknown, l.ranged = nil, nil
	if g.life == l {
		g.Start()
	}
	for _, poll := range l.polls {
		poll()
	}
	l.polls = nil
}

// Tick does the periodic work of the gateway: it cleans up and checks for acknowledgements.
func (g *Gateway) Tick() {
	l := g.life
	if l != nil && l.open != nil {
		if l.late--; l.late == 0 {
			l.open()
		}
	}
	g.pushAgain()
	if l == nil {
		return
	}
	if l.closed && l.bound && !l.freeing {
		l.freeing = true
		g.close(l)
	}
	polls := l.polls // without a bit too: it waits for one
	l.polls = nil
	for _, poll := range polls {
		poll()
	}
	if !l.serving {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.suspects)) {
		delete(l.suspects, key)
		g.cleanUp(l, key)
	}
	g.acknowledge(l)
}

// ackOf is how a revision is written that a session has acknowledged: values are compared by bytes.
func ackOf(rev int64) string { return fmt.Sprintf("%020d", rev) }

// acknowledge finds up to which revision of the directory all own writes follow it: those that began under an older
// instance have ended. It tells etcd if another session may wait for that: the own placements look at it here.
func (g *Gateway) acknowledge(l *life) {
	target := l.seen
	for i, c := range l.changes {
		if g.on(Drain) && l.older(c.Key, instanceIn(c.Value)) {
			target = c.Rev - 1
			l.changes = l.changes[i:]
			break
		}
		if i == len(l.changes)-1 {
			l.changes = nil
		}
	}
	l.follows = max(l.follows, target)
	if l.over || l.acking || min(l.follows, l.foreign) <= l.acked {
		return
	}
	l.acking = true
	target = l.follows
	key, value := g.names.ack+l.lease, ackOf(target)
	g.surely(l, Request{
		If: append(g.inTimeline(), Cond{Key: key, Kind: ValueBelow, Value: value},
			Cond{Key: g.names.session + l.lease, Kind: CreateIs, Rev: l.create}),
		Put: []Put{{Key: key, Value: value, Session: true}},
	}, func(r *Result) {
		l.acking, l.acked = false, target
		g.acknowledge(l)
	})
}

// hasBit reports whether a session still has its bit, as a result shows it. Another one may have it since somebody
// deleted its key: then the bits in objects are that one's. A late request of the session may have written the key again,
// after others have cleared the bits in objects: its create_revision tells.
func (g *Gateway) hasBit(l *life, r *Result) bool {
	return !g.on(OwnBit) || r.KVs[g.bitKey(l.bit)].Create == l.bitCreate
}
