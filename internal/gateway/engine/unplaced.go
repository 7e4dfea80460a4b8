package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

const (
	// servingWithin bounds how long a write waits for a session while keys are placed. etcd's own requests may take as long.
	servingWithin = 7 * time.Second
	// lookAgain is how often an answer that waits for a session looks at the directory.
	lookAgain = 100 * time.Millisecond
)

// serving reports whether this gateway has a session, so that it takes writes.
func (e *Engine) serving() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.core.Serving()
}

// look looks at the directory, and reports whether a message with a revision may be shown then. Any member may
// answer, a learner too: it executes transactions without operations on its own state. If keys are placed, the
// message may be pushed in the gateway's timeline: the timeline is looked at too.
func (e *Engine) look(ctx context.Context, m core.Message, rev int64) bool {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, nil), identifyWithin)
	defer cancel()
	asked, kv := bootTime(), pb.NewKVClient(e.o.Etcd)
	e.mu.Lock()
	counted, alone := e.core.Unplaced(), e.core.Alone()
	e.mu.Unlock()
	answer, err := kv.Txn(ctx, &pb.TxnRequest{Compare: compares(counted)})
	if err != nil {
		return false
	}
	if e.sees(asked, answer.Header.Revision, answer.Succeeded, false, m, rev) {
		return true
	}
	if alone != nil {
		if answer, err = kv.Txn(ctx, &pb.TxnRequest{Compare: compares(alone)}); err != nil {
			return false
		}
		if answer.Succeeded && e.sees(asked, answer.Header.Revision, e.deserted(ctx, answer.Header.Revision), false, m, rev) {
			return true
		}
	}
	if !e.isIdentified() {
		return false
	}
	answer, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		read(&pb.RangeRequest{Key: []byte(timelineKey), Serializable: true}),
		read(&pb.RangeRequest{Key: []byte(OwnPrefix + core.CountName), Serializable: true}),
	}})
	if err != nil {
		return false
	}
	e.mu.Lock()
	timeline, count := answer.Responses[0].GetResponseRange(), answer.Responses[1].GetResponseRange()
	same := e.core.InTimeline(valueIn(timeline), valueIn(count))
	e.mu.Unlock()
	return e.sees(asked, answer.Header.Revision, false, same, m, rev)
}

// sees takes what a member of etcd had when it was asked, and reports whether a message with a revision may be shown
// then.
func (e *Engine) sees(asked, at int64, unplaced, same bool, m core.Message, rev int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.Looked(at, unplaced, same)
	e.looked = max(e.looked, asked+int64(e.o.Lease))
	return e.core.Shows(m, rev)
}

// recent reports whether the last look at the directory counts, and inTime whether messages may be shown after a push.
// The core calls them, under mu.
func (e *Engine) recent() bool { return bootTime() < e.looked }
func (e *Engine) inTime() bool { return e.tenured == e.core.Lease() && e.tenure.Lasts(bootTime()) }

// deserted lists the sessions' leases for [core.Gateway.Deserted].
func (e *Engine) deserted(ctx context.Context, rev int64) (yes bool) {
	listed := e.othersLeases(ctx, rev)
	e.do(func(g *core.Gateway) { yes = g.Deserted(listed) })
	return yes
}

// writeUnplaced executes a write if nothing is placed; done is false if something is, or if this condition does not
// fit.
func (e *Engine) writeUnplaced(ctx context.Context, r *request) (w written, done bool, err error) {
	e.mu.Lock()
	counted := e.core.IfUnplaced()
	e.mu.Unlock()
	if w, done, err = e.writeIf(ctx, r, counted); done {
		return w, true, err
	}
	if vacant, ok := e.vacancy(ctx); ok {
		return e.writeIf(ctx, r, vacant)
	}
	return w, false, nil
}

// writeIf executes a write under conditions under which nothing is placed.
func (e *Engine) writeIf(ctx context.Context, r *request, conditions []core.Cond) (w written, done bool, err error) {
	asked := bootTime()
	f, answer, err := e.txns.attempt(ctx, r, compares(conditions), []*pb.RequestOp{r.op}, nil, true)
	switch {
	case err != nil:
		return w, true, e.judge(ctx, r.op, err)
	case f == nil || !answer.Succeeded:
		return w, false, nil
	}
	e.sees(asked, answer.Header.Revision, true, false, core.Answers, 0)
	answers, _ := f.answers(answer)
	return written{answers[0], answer.Header}, true, nil
}

// vacancy executes the requests of a [core.Vacancy], and returns its conditions.
func (e *Engine) vacancy(ctx context.Context) (conditions []core.Cond, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, ownWithin)
	defer cancel()
	var v *core.Vacancy
	var r core.Request
	more := false
	e.do(func(g *core.Gateway) {
		v = g.Vacancy()
		r, more = v.Next()
	})
	for more {
		result := e.looksUnused(ctx, &r)
		e.do(func(*core.Gateway) {
			v.Took(result)
			r, more = v.Next()
		})
	}
	e.do(func(*core.Gateway) { conditions, ok = v.Conditions() })
	return conditions, ok
}

// othersLeases lists the leases of other gateways' sessions. A gateway's own session has not begun if etcd grants the lease
// and refuses the rest.
func (e *Engine) othersLeases(ctx context.Context, rev int64) *core.Result {
	listed := sessionLeases(ctx, e.o.Etcd, rev)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, own := range e.leases {
		listed.Leases = slices.DeleteFunc(listed.Leases, func(id int64) bool { return id == own.id.Load() })
	}
	return listed
}

// looksUnused executes a request of a [core.Vacancy].
func (e *Engine) looksUnused(ctx context.Context, r *core.Request) *core.Result {
	if r.Leases != 0 {
		return e.othersLeases(ctx, r.Leases)
	}
	result, err := e.executeOwn(ctx, r)
	if err != nil {
		return &core.Result{Unknown: uncertain(err), Err: err}
	}
	return result
}

// unpushed reports, while there is no session, whether an answer may be shown without a push. Until etcd is identified no push is
// possible: then it waits until the directory is empty, etcd is identified, or the cache has ended.
func (e *Engine) unpushed(ctx context.Context, m core.Message, rev int64) (shown bool, err error) {
	if e.look(ctx, m, rev) {
		return true, nil
	}
	within, cancel := context.WithTimeout(ctx, servingWithin)
	defer cancel()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-e.identified:
			return false, nil
		case <-e.ctx.Done():
			return false, nil
		case <-within.Done():
			if ctx.Err() != nil {
				return false, status.FromContextError(ctx.Err()).Err()
			}
			return false, e.trouble.status()
		case <-ticker.C:
			if e.look(ctx, m, rev) {
				return true, nil
			}
		}
	}
}

// trouble is the last error of the gateway's own requests.
type trouble struct {
	mu   sync.Mutex
	last error
}

// note takes an error, and reports whether it is another than the last one.
func (t *trouble) note(err error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = t.last == nil || t.last.Error() != err.Error()
	t.last = err
	return news
}

// status is the error of a call that waited too long for the gateway's own requests, in etcd's code.
func (t *trouble) status() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	const message = "gateway: it has no session in etcd yet: "
	switch code := status.Code(t.last); {
	case t.last == nil:
		return status.Error(codes.Unavailable, message+"etcd did not answer")
	case code == codes.DeadlineExceeded, code == codes.Canceled, code == codes.Unknown: // those of the gateway's requests
		return status.Error(codes.Unavailable, message+t.last.Error())
	default:
		return status.Error(code, message+status.Convert(t.last).Message())
	}
}
