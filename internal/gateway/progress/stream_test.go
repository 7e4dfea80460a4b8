package progress

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// client is the other end of a stream.
type client struct {
	grpc.ServerStream
	ctx      context.Context
	requests chan *pb.WatchRequest
	answers  chan *pb.WatchResponse
}

func (c *client) Context() context.Context { return c.ctx }

func (c *client) RecvMsg(m any) error {
	select {
	case r, ok := <-c.requests:
		if !ok {
			return io.EOF
		}
		m.(*pb.WatchRequest).RequestUnion = r.RequestUnion
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (c *client) SendMsg(m any) error {
	c.answers <- m.(*pb.WatchResponse)
	return nil
}

// open opens a stream, and serves it with a store that answers every request for progress at once with the mark's
// revision. Other requests go to others.
func open(ctx context.Context, m *Mark) (c *client, others chan *pb.WatchRequest, ended chan error) {
	c = &client{ctx: ctx, requests: make(chan *pb.WatchRequest), answers: make(chan *pb.WatchResponse, 1000)}
	others, ended = make(chan *pb.WatchRequest, 10), make(chan error, 1)
	s := New(c, Decoded{}, m.Newest)
	go func() {
		for {
			var r pb.WatchRequest
			if err := s.RecvMsg(&r); err != nil {
				ended <- err
				return
			}
			if r.GetProgressRequest() == nil {
				others <- &r
				continue
			}
			revision, _ := m.Newest()
			if err := s.SendMsg(&pb.WatchResponse{WatchId: -1, Header: &pb.ResponseHeader{Revision: revision}}); err != nil {
				ended <- err
				return
			}
		}
	}()
	return c, others, ended
}

// expect expects answers with these revisions, and no others, as soon as nothing happens any more without time passing.
func (c *client) expect(t *testing.T, revisions ...int64) {
	t.Helper()
	synctest.Wait()
	for _, want := range revisions {
		select {
		case a := <-c.answers:
			if got := a.Header.Revision; got != want {
				t.Errorf("progress of revision %d, want %d", got, want)
			}
		default:
			t.Errorf("no progress, want that of revision %d", want)
		}
	}
	select {
	case a := <-c.answers:
		t.Errorf("progress of revision %d too", a.Header.Revision)
	default:
	}
}

// TestStreamFollowsTheStore: after a request the client is told each newer revision, those of 5 ms at once, until it
// has not requested progress for a while. Before, it is told nothing.
func TestStreamFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Mark
		m.Raise(7)
		c, others, ended := open(t.Context(), &m)
		m.Raise(8)
		<-time.After(time.Second) // of the bubble
		c.expect(t)
		c.requests <- Request()
		c.expect(t, 8)
		<-time.After(20 * time.Millisecond) // of the bubble
		c.expect(t)
		m.Raise(9)
		c.expect(t, 9)
		m.Raise(10)
		m.Raise(11)
		c.expect(t)
		<-time.After(5 * time.Millisecond) // of the bubble
		c.expect(t, 11)
		c.requests <- Request()
		c.expect(t, 11)
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}
		c.requests <- create
		if r := <-others; string(r.GetCreateRequest().GetKey()) != "k" {
			t.Errorf("the store gets %v", r)
		}
		for revision := int64(12); revision < 20; revision++ {
			<-time.After(100 * time.Millisecond) // of the bubble
			m.Raise(revision)
			c.expect(t, revision)
			c.requests <- Request()
			c.expect(t, revision)
		}
		<-time.After(250 * time.Millisecond) // of the bubble
		m.Raise(100)
		c.expect(t)
		<-time.After(time.Hour) // of the bubble
		c.expect(t)
		c.requests <- Request()
		c.expect(t, 100)
		close(c.requests)
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// TestStreamEnds: the handler learns of the stream's end while it waits for the store, and no goroutine stays.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Mark
		ctx, cancel := context.WithCancel(t.Context())
		c, _, ended := open(ctx, &m)
		c.requests <- Request()
		<-time.After(time.Millisecond) // of the bubble
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
