package memory

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/gateway/progress"
)

// maxControl responses to requests of a stream wait to be sent.
const maxControl = 16

// watchServer serves watches from this gateway's own copy, so a takeover does not interrupt them.
type watchServer struct {
	pb.UnimplementedWatchServer
	g *Gateway
}

// Watch implements etcd's API. The only status that ends a stream for a reason of the gateway's is Unavailable: clients
// watch again from their next revision then.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	if s.g.known(stream.Context()) != nil {
		return rpctypes.ErrGRPCStopped
	}
	space, done, err := s.g.present()
	if err != nil {
		return err
	}
	defer done()
	stream = &grpc.GenericServerStream[pb.WatchRequest, pb.WatchResponse]{
		ServerStream: progress.New(stream, progress.Decoded{}, s.g.applied.Newest),
	}
	w := &watcher{
		g: s.g, space: space, stream: stream, events: space.Store().NewWatchStream(),
		control: make(chan *pb.WatchResponse, maxControl), closed: make(chan struct{}),
		wants: make(map[mvcc.WatchID]*wish),
	}
	failed := make(chan struct{})
	go func() {
		if w.receive() != nil {
			close(failed)
		}
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.send()
	}()
	select {
	case <-failed:
	case <-sent:
	case <-space.Gone():
	case <-stream.Context().Done():
	}
	close(w.closed)
	w.events.Close()
	// The client may not read what is sent to it, and the keyspace does not wait for it: the end of the call ends send.
	for r := range w.events.Chan() {
		mvcc.ReportEventReceived(len(r.Events))
	}
	return rpctypes.ErrGRPCStopped
}

// watcher is one stream of a client, with any number of watches.
type watcher struct {
	g       *Gateway
	space   *keyspace.Keyspace
	stream  pb.Watch_WatchServer
	events  mvcc.WatchStream
	control chan *pb.WatchResponse
	closed  chan struct{}

	mu    sync.Mutex
	wants map[mvcc.WatchID]*wish
}

// wish has the options of a watch.
type wish struct {
	previous, fragments, progress bool
	quiet                         bool // nothing was sent since the last tick
}

// receive executes the client's requests. A client that sends no more keeps its watches.
func (w *watcher) receive() error {
	for {
		q, err := w.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case q.GetCreateRequest() != nil:
			err = w.create(q.GetCreateRequest())
		case q.GetCancelRequest() != nil:
			err = w.cancel(q.GetCancelRequest().WatchId)
		case q.GetProgressRequest() != nil:
			w.events.RequestProgressAll()
		}
		if err != nil {
			return err
		}
	}
}

// reply has a response sent to a request.
func (w *watcher) reply(r *pb.WatchResponse) error {
	select {
	case w.control <- r:
		return nil
	case <-w.closed:
		return rpctypes.ErrGRPCStopped
	}
}

func (w *watcher) create(q *pb.WatchCreateRequest) error {
	if len(q.Key) == 0 {
		q.Key = []byte{0}
	}
	end := q.RangeEnd
	permission := func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		return space.Auth().IsRangePermitted(user, q.Key, end)
	}
	switch {
	case len(q.RangeEnd) == 0:
		q.RangeEnd = nil // one key
	case len(q.RangeEnd) == 1 && q.RangeEnd[0] == 0:
		q.RangeEnd = []byte{} // all keys from this one on
	}
	if q.StartRevision < 0 {
		return w.reply(&pb.WatchResponse{
			Header: w.header(w.events.Rev()), WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true,
			CancelReason: rpctypes.ErrCompacted.Error(),
		})
	}
	if err := w.g.admit(w.stream.Context(), w.space, permission); err != nil {
		return w.reply(&pb.WatchResponse{
			Header: w.header(w.events.Rev()), WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true,
			CancelReason: err.Error(),
		})
	}
	w.mu.Lock()
	id, err := w.events.Watch(context.Background(), mvcc.WatchID(q.WatchId), q.Key, q.RangeEnd, q.StartRevision,
		v3rpc.FiltersFromRequest(q)...)
	if err == nil {
		w.wants[id] = &wish{previous: q.PrevKv, fragments: q.Fragment, progress: q.ProgressNotify}
	}
	w.mu.Unlock()
	r := &pb.WatchResponse{Header: w.header(w.events.Rev()), WatchId: int64(id), Created: true}
	if err != nil {
		r.WatchId, r.Canceled, r.CancelReason = clientv3.InvalidWatchID, true, err.Error()
	}
	return w.reply(r)
}

func (w *watcher) cancel(id int64) error {
	if w.events.Cancel(mvcc.WatchID(id)) != nil {
		return nil // there is no such watch
	}
	w.mu.Lock()
	delete(w.wants, mvcc.WatchID(id))
	w.mu.Unlock()
	return w.reply(&pb.WatchResponse{Header: w.header(w.events.Rev()), WatchId: id, Canceled: true})
}

// send sends responses and events until the stream ends. Events of a watch follow the response that it was created.
func (w *watcher) send() {
	announced := make(map[int64]bool)
	early := make(map[int64][]*pb.WatchResponse)
	ticks := time.NewTicker(v3rpc.GetProgressReportInterval())
	defer ticks.Stop()
	for {
		var err error
		select {
		case <-w.closed:
			return
		case found, ok := <-w.events.Chan():
			if !ok {
				return
			}
			mvcc.ReportEventReceived(len(found.Events))
			var r *pb.WatchResponse
			if r, err = w.response(&found); err != nil {
				return
			}
			if r.WatchId != clientv3.InvalidWatchID && !announced[r.WatchId] {
				early[r.WatchId] = append(early[r.WatchId], r)
				continue
			}
			err = w.deliver(r)
		case r := <-w.control:
			if err = w.stream.Send(r); err != nil || r.WatchId == clientv3.InvalidWatchID {
				break
			}
			if r.Canceled {
				delete(announced, r.WatchId)
				break
			}
			announced[r.WatchId] = true
			for _, event := range early[r.WatchId] {
				if err = w.deliver(event); err != nil {
					return
				}
			}
			delete(early, r.WatchId)
		case <-ticks.C:
			w.progress()
		}
		if err != nil {
			return
		}
	}
}

// progress tells watches that had nothing to tell since the last tick how far they are.
func (w *watcher) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, want := range w.wants {
		if want.progress && want.quiet {
			w.events.RequestProgress(id)
		}
		want.quiet = true
	}
}

// response makes a response of events, unless the keyspace is gone.
func (w *watcher) response(found *mvcc.WatchResponse) (*pb.WatchResponse, error) {
	w.mu.Lock()
	want := w.wants[found.WatchID]
	previous := want != nil && want.previous
	w.mu.Unlock()
	if previous {
		done, ok := w.space.Use()
		if !ok {
			return nil, rpctypes.ErrGRPCStopped
		}
		defer done()
	}
	r := &pb.WatchResponse{
		Header: w.header(found.Revision), WatchId: int64(found.WatchID), Events: make([]*mvccpb.Event, len(found.Events)),
		CompactRevision: found.CompactRevision, Canceled: found.CompactRevision != 0,
	}
	for i, e := range found.Events {
		r.Events[i] = e
		if previous && !v3rpc.IsCreateEvent(e) {
			before, err := w.space.Store().Range(context.Background(), e.Kv.Key, nil,
				mvcc.RangeOptions{Rev: e.Kv.ModRevision - 1})
			if err == nil && len(before.KVs) > 0 {
				r.Events[i] = &mvccpb.Event{Type: e.Type, Kv: e.Kv, PrevKv: before.KVs[0]}
			}
		}
	}
	return r, nil
}

// deliver sends events, in fragments if the watch has that option.
func (w *watcher) deliver(r *pb.WatchResponse) error {
	w.mu.Lock()
	want := w.wants[mvcc.WatchID(r.WatchId)]
	fragments := want != nil && want.fragments
	if want != nil && len(r.Events) > 0 {
		want.quiet = false
	}
	w.mu.Unlock()
	if !fragments {
		return w.stream.Send(r)
	}
	return sendFragments(r, w.stream.Send)
}

func (w *watcher) header(revision int64) *pb.ResponseHeader {
	h := &pb.ResponseHeader{Revision: revision}
	w.g.fill(h)
	return h
}
