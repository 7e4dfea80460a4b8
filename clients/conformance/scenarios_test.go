package conformance

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// scenario is a part of the contract that each client keeps. row is how the table of docs/languages.md calls it.
type scenario struct {
	row  string
	name string
	run  func(t *testing.T, d *driver)
}

var scenarios = []scenario{
	{"operations", "operations", operations},
	{"operations", "limits", limits},
	{"retries", "lost requests", lostRequests},
	{"retries", "lost answers", lostAnswers},
	{"retries", "repeated and late answers", repeatedAnswers},
	{"retries", "reordered answers", reorderedAnswers},
	{"retries", "busy", busy},
	{"retries", "detours of writes", detours},
	{"retries", "random faults", randomFaults},
	{"sessions", "sessions are used again", sessionsAgain},
	{"sessions", "sessions end with their outcome", sessionsEnd},
	{"unknown outcomes", "silence", silence},
	{"unknown outcomes", "busy until the end", busyForever},
	{"unknown outcomes", "refusals", refusals},
	{"unknown outcomes", "too large for a cell", tooLarge},
	{"wrong answers", "wrong answers", wrongAnswers},
	{"reads of any node", "another node", anotherNode},
	{"reads of any node", "a chosen node", chosenNode},
	{"reads of any node", "relaxed reads", relaxed},
	{"maps", "a node of another epoch", notMine},
	{"maps", "a chain moves", newerMap},
	{"maps", "a map ends a wait", overtaken},
	{"maps", "answers of an older epoch", oldAnswers},
	{"maps", "writes of one epoch", otherEpoch},
	{"maps", "wrong maps", wrongMaps},
	{"maps", "other sources", otherSources},
	{"maps", "a large map", largeMap},
	{"TLS and tags", "identities", identities},
	{"TLS and tags", "tags", tags},
}

// TestConformance runs all scenarios with the client of each language.
func TestConformance(t *testing.T) {
	r := &results{failed: make(map[string]bool)}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			d := startDriver(t, l)
			for _, s := range scenarios {
				t.Run(s.row+"/"+s.name, func(t *testing.T) {
					defer func() { r.note(s.row, l.name, !t.Failed()) }()
					s.run(t, d)
				})
			}
		})
	}
	r.compare(t)
}

// Times in milliseconds: attempts are short, so that lost messages are repeated soon. An operation that must succeed has
// a time that only a broken machine exceeds, one that must fail a short one.
const (
	attempt = 20
	plenty  = 60_000
	short   = 200
)

// open3 starts three scripted nodes as a static cluster, and has the driver open it.
func open3(t *testing.T, d *driver, s script) *world {
	t.Helper()
	w := newWorld(t, 3, s)
	if o := d.do(t, "open cluster=%s attempt=%d timeout=%d", w.clusterFile(), attempt, plenty); o.Errors != nil {
		t.Fatal(o.Text)
	}
	return w
}

func pass(w *world, r *request) { w.pass(r) }

// failing lets the first n requests meet a fault, and passes on the others.
func failing(n int, fault script) script {
	return func(w *world, r *request) {
		if n > 0 {
			n--
			fault(w, r)
			return
		}
		w.pass(r)
	}
}

func lose(*world, *request) {}

// must checks that an operation succeeded, and with which version.
func must(t *testing.T, o Outcome, version uint64) {
	t.Helper()
	if o.Errors != nil || version != 0 && o.Version != version {
		t.Fatalf("%+v, version %d was wanted", o, version)
	}
}

// mustFail checks the kinds of an error.
func mustFail(t *testing.T, o Outcome, errors string) {
	t.Helper()
	if !hasError(o, errors) {
		t.Fatalf("%v was wanted, not %+v", errors, o)
	}
	if o.Text == "" {
		t.Error("the error has no text")
	}
}

func operations(t *testing.T, d *driver) {
	open3(t, d, pass)
	k := hexOf("k")
	mustFail(t, d.do(t, "get key=%s", k), "not_found")
	must(t, d.do(t, "put key=%s value=%s", k, hexOf("one")), 1)
	if o := d.do(t, "get key=%s", k); o.Errors != nil || o.Value != hexOf("one") || o.Version != 1 || o.Epoch != 1 {
		t.Fatalf("%+v", o)
	}
	must(t, d.do(t, "cas key=%s expected=1 value=%s", k, hexOf("two")), 2)
	o := d.do(t, "cas key=%s expected=1 value=%s", k, hexOf("three"))
	mustFail(t, o, "cas_failed")
	if o.Version != 2 || o.Value != hexOf("two") || o.ValueUnknown {
		t.Fatalf("%+v", o)
	}
	must(t, d.do(t, "put key=%s value=", k), 3)
	if o := d.do(t, "get key=%s", k); o.Errors != nil || o.Value != "" || o.Version != 3 {
		t.Fatalf("%+v", o)
	}
	must(t, d.do(t, "delete key=%s", k), 4)
	o = d.do(t, "get key=%s", k)
	mustFail(t, o, "not_found")
	if o.Version != 4 {
		t.Fatalf("the deletion has version %d", o.Version)
	}
	must(t, d.do(t, "cas key=%s expected=0 value=%s", k, hexOf("again")), 5)
	for want, delta := int64(0), int64(-3); want > -9; {
		want += delta
		if o := d.do(t, "add key=%s delta=%d", hexOf("counter"), delta); o.Errors != nil || o.Counter != want {
			t.Fatalf("%+v, and the sum is %d", o, want)
		}
	}
	mustFail(t, d.do(t, "add key=%s delta=1", k), "not_counter")
}

func limits(t *testing.T, d *driver) {
	w := open3(t, d, pass)
	longKey, longValue := strings.Repeat("k", wire.MaxKeyBytes), strings.Repeat("v", wire.MaxValueBytes)
	mustFail(t, d.do(t, "get key="), "bad_request")
	mustFail(t, d.do(t, "put key=%s value=00", hexOf(longKey+"k")), "bad_request")
	mustFail(t, d.do(t, "put key=00 value=%s", hexOf(longValue+"v")), "too_large")
	if got := w.requests(); len(got) > 0 {
		t.Errorf("%d messages were sent for wrong arguments", len(got))
	}
	must(t, d.do(t, "put key=%s value=%s", hexOf(longKey), hexOf(longValue)), 1)
	if o := d.do(t, "get key=%s", hexOf(longKey)); o.Value != hexOf(longValue) {
		t.Errorf("%+v", o)
	}
	must(t, d.do(t, "put key=%s value=%s", hexOf("odd"), hexOf("123")), 1) // the checksum of an odd length
	if o := d.do(t, "get key=%s", hexOf("odd")); o.Value != hexOf("123") {
		t.Errorf("%+v", o)
	}
}

// sameWrite checks that all requests are attempts of one write: one session and number, and ids of their own.
func sameWrite(t *testing.T, got []request) {
	t.Helper()
	ids := make(map[uint64]bool)
	for _, r := range got {
		m, first := &r.message, &got[0].message
		if m.Session != first.Session || m.Seq != first.Seq || m.Op != first.Op || m.Key != first.Key || ids[m.Request] {
			t.Errorf("%+v is no attempt of %+v", m, first)
		}
		ids[m.Request] = true
	}
}

func lostRequests(t *testing.T, d *driver) {
	w := open3(t, d, failing(3, lose))
	must(t, d.do(t, "put key=00 value=01"), 1)
	if got := w.requests(); len(got) < 4 {
		t.Errorf("%d messages", len(got))
	} else {
		sameWrite(t, got)
	}
	w = open3(t, d, failing(3, lose))
	mustFail(t, d.do(t, "get key=00"), "not_found")
	if got := w.requests(); len(got) < 4 {
		t.Errorf("%d messages", len(got))
	}
}

func lostAnswers(t *testing.T, d *driver) {
	w := open3(t, d, failing(3, func(w *world, r *request) { w.execute(r) }))
	if o := d.do(t, "add key=00 delta=5"); o.Errors != nil || o.Counter != 5 {
		t.Fatalf("%+v: the sum is 5", o)
	}
	sameWrite(t, w.requests())
	if o := d.do(t, "add key=00 delta=5"); o.Errors != nil || o.Counter != 10 {
		t.Fatalf("%+v: the sum is 10", o)
	}
}

// Every answer comes twice, and again before the answer to the next operation.
func repeatedAnswers(t *testing.T, d *driver) {
	open3(t, d, func(w *world, r *request) {
		for _, p := range w.kept {
			w.send(p)
		}
		if m := w.execute(r); m != nil {
			w.answer(r, m)
			w.answer(r, m)
			w.keep(r, m)
		}
	})
	for want := int64(1); want <= 20; want++ {
		if o := d.do(t, "add key=00 delta=1"); o.Errors != nil || o.Counter != want {
			t.Fatalf("%+v: the sum is %d", o, want)
		}
		if o := d.do(t, "get key=00"); o.Errors != nil || o.Version != uint64(want) {
			t.Fatalf("%+v: the version is %d", o, want)
		}
	}
}

// The answers to three attempts come in the opposite order, and the BUSY of an older attempt behind them.
func reorderedAnswers(t *testing.T, d *driver) {
	n := 0
	w := open3(t, d, func(w *world, r *request) {
		switch n++; {
		case n == 1:
			w.keep(r, replyTo(r, wire.StatusBusy, 0, 1))
		case n <= 3:
			w.keep(r, w.execute(r))
		default:
			w.keep(r, w.execute(r))
			w.release()
		}
	})
	if o := d.do(t, "add key=00 delta=7"); o.Errors != nil || o.Counter != 7 {
		t.Fatalf("%+v: the sum is 7", o)
	}
	sameWrite(t, w.requests())
}

func busy(t *testing.T, d *driver) {
	answerBusy := func(w *world, r *request) { w.status(r, wire.StatusBusy, 0, 1) }
	w := open3(t, d, failing(10, answerBusy))
	must(t, d.do(t, "put key=00 value=01"), 1)
	if got := w.requests(); len(got) < 11 {
		t.Errorf("%d messages", len(got))
	} else {
		sameWrite(t, got)
	}
	open3(t, d, failing(10, answerBusy))
	mustFail(t, d.do(t, "get key=00"), "not_found")
}

// The path to the head may be broken: every second retry of a write goes to another node.
func detours(t *testing.T, d *driver) {
	w := newWorld(t, 3, failing(5, lose))
	const patient = 5 * attempt // so that requests come in their order on a slow machine, too
	if o := d.do(t, "open cluster=%s attempt=%d timeout=%d", w.clusterFile(), patient, plenty); o.Errors != nil {
		t.Fatal(o.Text)
	}
	must(t, d.do(t, "put key=00 value=01"), 1)
	var asked []int
	for _, r := range w.requests() {
		asked = append(asked, r.node)
	}
	for i, want := range []int{0, 0, 1, 0, 2} {
		if asked[i] != want {
			t.Fatalf("places %v of the chain were asked", asked)
		}
	}
}

func sessionsAgain(t *testing.T, d *driver) {
	w := open3(t, d, pass)
	for range 3 {
		must(t, d.do(t, "put key=%s value=01", hexOf(keyIn(0, "a"))), 0)
		must(t, d.do(t, "put key=%s value=01", hexOf(keyIn(1, "a"))), 0)
	}
	mustFail(t, d.do(t, "cas key=%s expected=9 value=01", hexOf(keyIn(0, "a"))), "cas_failed")
	must(t, d.do(t, "put key=%s value=01", hexOf(keyIn(0, "b"))), 0)
	highest := make(map[uint64]uint64)
	shardOf := make(map[uint64]uint16)
	for _, r := range w.requests() {
		m := r.message
		if shard, known := shardOf[m.Session]; known && shard != m.Shard {
			t.Errorf("session %#x is used in two shards", m.Session)
		}
		shardOf[m.Session] = m.Shard
		highest[m.Session] = max(highest[m.Session], m.Seq)
	}
	if len(highest) != 2 {
		t.Errorf("one writer used %d sessions in two shards", len(highest))
	}
	for session, shard := range shardOf {
		if want := map[uint16]uint64{0: 5, 1: 3}[shard]; highest[session] != want {
			t.Errorf("shard %d: %d writes have numbers up to %d", shard, want, highest[session])
		}
	}
}

// sessionsOf lists the sessions of the requests, each once, in their order.
func sessionsOf(got []request) (sessions []uint64) {
	seen := make(map[uint64]bool)
	for _, r := range got {
		if s := r.message.Session; s != 0 && !seen[s] {
			seen[s] = true
			sessions = append(sessions, s)
		}
	}
	return sessions
}

func sessionsEnd(t *testing.T, d *driver) {
	deaf := false
	w := open3(t, d, func(w *world, r *request) {
		if !deaf {
			w.pass(r)
		}
	})
	must(t, d.do(t, "put key=00 value=01"), 1)
	w.mu.Lock()
	deaf = true
	w.mu.Unlock()
	mustFail(t, d.do(t, "put key=00 value=02 timeout=%d", short), "outcome_unknown timeout")
	w.mu.Lock()
	deaf = false
	w.mu.Unlock()
	must(t, d.do(t, "put key=00 value=03"), 0)
	must(t, d.do(t, "put key=00 value=04"), 0)
	if got := sessionsOf(w.requests()); len(got) != 2 {
		t.Errorf("%d sessions: the one of the unknown outcome must not be used again, the next one must", len(got))
	}
}

func silence(t *testing.T, d *driver) {
	w := open3(t, d, lose)
	mustFail(t, d.do(t, "get key=00 timeout=%d", short), "timeout")
	for _, op := range []string{"put key=00 value=01", "delete key=00", "cas key=00 expected=0 value=01", "add key=00 delta=1"} {
		mustFail(t, d.do(t, "%s timeout=%d", op, short), "outcome_unknown timeout")
	}
	attempts := make(map[wire.Op][]request) // a late one may arrive while the next operation is tried
	for _, r := range w.requests() {
		attempts[r.message.Op] = append(attempts[r.message.Op], r)
	}
	for _, op := range []wire.Op{wire.OpPut, wire.OpDelete, wire.OpCAS, wire.OpAdd} {
		sameWrite(t, attempts[op])
	}
}

func busyForever(t *testing.T, d *driver) {
	open3(t, d, func(w *world, r *request) { w.status(r, wire.StatusBusy, 0, 1) })
	mustFail(t, d.do(t, "get key=00 timeout=%d", short), "timeout busy")
	mustFail(t, d.do(t, "put key=00 value=01 timeout=%d", short), "outcome_unknown timeout busy")
}

// refusals are the answers FULL, which say different things about the write and its session.
func refusals(t *testing.T, d *driver) {
	var status wire.Status
	var flags wire.Flag
	w := open3(t, d, func(w *world, r *request) {
		if status == wire.StatusOk {
			w.pass(r)
			return
		}
		w.status(r, status, flags, 1)
	})
	for _, test := range []struct {
		status   wire.Status
		flags    wire.Flag
		want     string
		sessions int // that this write and the next one use
	}{
		{wire.StatusFull, wire.FlagNoValue, "full", 1},
		{wire.StatusFull, wire.FlagNoValue | wire.FlagSession, "full", 2},
		{wire.StatusFull, 0, "outcome_unknown full", 2},
		{wire.StatusBadRequest, 0, "outcome_unknown bad_request", 2},
		{wire.StatusDenied, 0, "outcome_unknown bad_request", 2},
		{wire.Status(77), 0, "outcome_unknown bad_request", 2},
	} {
		set := func(s wire.Status) {
			w.mu.Lock()
			defer w.mu.Unlock()
			status, flags = s, test.flags
		}
		before := len(w.requests())
		set(test.status)
		mustFail(t, d.do(t, "put key=00 value=01"), test.want)
		set(wire.StatusOk)
		must(t, d.do(t, "put key=00 value=01"), 0)
		if got := sessionsOf(w.requests()[before:]); len(got) != test.sessions {
			t.Errorf("%v with flags %#x: %d sessions", test.status, test.flags, len(got))
		}
	}
	w.mu.Lock()
	status, flags = wire.StatusCASFailed, wire.FlagNoValue
	w.mu.Unlock()
	o := d.do(t, "cas key=00 expected=3 value=01")
	mustFail(t, o, "cas_failed")
	if !o.ValueUnknown {
		t.Errorf("%+v: the value is not known", o)
	}
	w.mu.Lock()
	status = wire.StatusBadRequest
	w.mu.Unlock()
	mustFail(t, d.do(t, "get key=00"), "bad_request")
	mustFail(t, d.do(t, "add key=00 delta=1"), "not_counter")
}

// A node whose cells are too small says so to every attempt. Whether another attempt was taken is not known.
func tooLarge(t *testing.T, d *driver) {
	small := func(w *world, r *request) { w.status(r, wire.StatusTooLarge, 0, 1) }
	n := 0
	w := open3(t, d, func(w *world, r *request) {
		if n++; n > 1 {
			small(w, r)
		}
	})
	mustFail(t, d.do(t, "put key=00 value=01"), "outcome_unknown too_large")
	w.mu.Lock()
	w.script = small
	w.mu.Unlock()
	for range 5 { // a slow machine may have the client repeat the write before the answer comes
		before := len(w.requests())
		o := d.do(t, "put key=00 value=01")
		if len(w.requests()) == before+1 {
			mustFail(t, o, "too_large")
			return
		}
	}
}

// anotherNode answers reads for one that does not.
func anotherNode(t *testing.T, d *driver) {
	for silent := range 3 {
		open3(t, d, func(w *world, r *request) {
			if r.node != silent {
				w.pass(r)
			}
		})
		must(t, d.do(t, "put key=00 value=01"), 1)
		for range 5 {
			must(t, d.do(t, "get key=00"), 1)
		}
	}
}

func chosenNode(t *testing.T, d *driver) {
	w := open3(t, d, pass)
	must(t, d.do(t, "put key=00 value=01"), 1)
	for place, from := range []string{"node:n1", "node:n2", "tail"} {
		before := len(w.requests())
		must(t, d.do(t, "get key=00 from=%s", from), 1)
		if got := w.requests()[before].node; got != place {
			t.Errorf("%s: place %d was asked", from, got)
		}
	}
	mustFail(t, d.do(t, "get key=00 from=node:n9"), "bad_request")
	w.mu.Lock()
	w.script = lose
	w.mu.Unlock()
	before := len(w.requests())
	mustFail(t, d.do(t, "get key=00 from=node:n2 timeout=%d", short), "timeout")
	for _, r := range w.requests()[before:] {
		if r.node != 1 {
			t.Errorf("place %d was asked instead of the node named", r.node)
		}
	}
}

func relaxed(t *testing.T, d *driver) {
	w := open3(t, d, pass)
	must(t, d.do(t, "put key=00 value=01"), 1)
	for _, test := range []struct {
		option string
		flags  wire.Flag
		detail uint16
	}{{"", 0, 0}, {"any=1", wire.FlagAny, 0}, {"bounded=250", wire.FlagBounded, 250}} {
		before := len(w.requests())
		must(t, d.do(t, "get key=00 %s", test.option), 1)
		if m := w.requests()[before].message; m.Flags != test.flags || m.Detail != test.detail {
			t.Errorf("%q: flags %#x, detail %d", test.option, m.Flags, m.Detail)
		}
	}
	mustFail(t, d.do(t, "get key=00 bounded=65536"), "bad_request")
}

func notMine(t *testing.T, d *driver) {
	elsewhere := func(w *world, r *request) { w.status(r, wire.StatusNotMine, 0, 2) }
	w := open3(t, d, elsewhere)
	mustFail(t, d.do(t, "get key=00"), "not_mine")
	asked := make(map[int]bool)
	for _, r := range w.requests() {
		asked[r.node] = true
	}
	if len(asked) != 3 {
		t.Errorf("only the places %v were asked", asked)
	}
	mustFail(t, d.do(t, "put key=00 value=01"), "outcome_unknown not_mine")
	w = open3(t, d, failing(3, func(w *world, r *request) { w.status(r, wire.StatusNotMine, 0, 0) })) // they just start
	must(t, d.do(t, "put key=00 value=01"), 1)
	sameWrite(t, w.requests())
}
