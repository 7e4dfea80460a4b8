package progress

import (
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/recovery"
)

// Messages are the messages of a stream of watches, in the form in which its handler has them.
type Messages interface {
	// New returns an empty request.
	New() any
	// Move sets an empty request to another one.
	Move(to, from any)
	// Request makes an empty request one for progress.
	Request(to any)
	// KindOf returns what a request asks for.
	KindOf(request any) Kind
	// Answer returns what an answer tells, and its revision.
	Answer(answer any) (Kind, int64)
}

// Kind is what a request asks for and what an answer tells, as far as progress is concerned.
type Kind uint8

const (
	Other    Kind = iota
	Progress      // of all watches of the stream
	Creation      // of a watch
)

// Newest returns a store's newest revision, and a channel that closes when there may be a newer one.
type Newest func() (revision int64, moved <-chan struct{})

// Stream is the server's end of a stream of watches, for the handler that serves the watches.
type Stream struct {
	grpc.ServerStream
	messages  Messages
	newest    Newest
	receiving chan received // of RecvMsg alone; nil: no goroutine receives

	mu       sync.Mutex
	progress core.Progress
}

// received is what the client has sent.
type received struct {
	request any
	err     error
}

// New returns the stream that the handler is to serve in place of another one.
func New(s grpc.ServerStream, m Messages, newest Newest) *Stream {
	return &Stream{ServerStream: s, messages: m, newest: newest}
}

// RecvMsg implements [grpc.ServerStream]. It returns requests of the client, and requests for progress that the client
// did not send.
func (s *Stream) RecvMsg(m any) error {
	for {
		step, moved := s.next()
		switch {
		case step.Ask:
			s.messages.Request(m)
			return nil
		case step.Wait == 0 && s.receiving == nil:
			err := s.ServerStream.RecvMsg(m)
			if err == nil {
				s.note(m)
			}
			return err
		}
		if r := s.await(step, moved); r != nil {
			if r.err == nil {
				s.messages.Move(m, r.request)
				s.note(m)
			}
			return r.err
		}
	}
}

// next returns the next step, and a channel that closes when the store has moved after it was chosen.
func (s *Stream) next() (core.ProgressStep, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.progress.Active(now) {
		return core.ProgressStep{}, nil
	}
	revision, moved := s.newest()
	return s.progress.Next(now, revision), moved
}

// note takes notice of a request of the client.
func (s *Stream) note(request any) {
	kind := s.messages.KindOf(request)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case Progress:
		s.progress.Requested(time.Now())
	case Creation:
		s.progress.Creates()
	}
}

// await waits until the next step is due, and returns nil, or until the client has sent something.
func (s *Stream) await(step core.ProgressStep, moved <-chan struct{}) *received {
	if s.receiving == nil {
		s.receiving = make(chan received, 1)
		go s.receive(s.receiving)
	}
	var due <-chan time.Time
	if step.Wait > 0 {
		t := time.NewTimer(step.Wait)
		defer t.Stop()
		due = t.C
	}
	if !step.Awaits {
		moved = nil
	}
	select {
	case r := <-s.receiving:
		s.receiving = nil
		return &r
	case <-due:
	case <-moved:
	}
	return nil
}

// receive receives one request. It ends with the stream.
func (s *Stream) receive(to chan<- received) {
	r := received{request: s.messages.New()}
	r.err = recovery.Do("a stream of watches", func() error { return s.ServerStream.RecvMsg(r.request) })
	to <- r
}

// SendMsg implements [grpc.ServerStream]. It leaves out progress that tells the client nothing new, or more than is
// true.
func (s *Stream) SendMsg(m any) error {
	if !s.passes(m) {
		return nil
	}
	return s.ServerStream.SendMsg(m)
}

func (s *Stream) passes(answer any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.progress.Began() && !s.progress.Creating() {
		return true
	}
	switch kind, revision := s.messages.Answer(answer); kind {
	case Progress:
		return s.progress.Answered(revision)
	case Creation:
		s.progress.Created(revision)
	}
	return true
}
