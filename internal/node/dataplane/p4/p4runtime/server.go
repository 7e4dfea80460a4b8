package p4runtime

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Version is that of P4Runtime which the server speaks.
const Version = "1.5.0"

// Engine runs one program. [p4.SWX] is one.
type Engine interface {
	Do(r *p4.Request) error
	Put(port int, frame []byte) error
	Try(port int, frame []byte) ([]p4.Left, error)
	SetClock(now uint64) error
	Open(network string) error
	Pause(paused bool) error
	ForCPU() <-chan p4.Left
	Err() error
	Close() error
}

// Options describe a switch.
type Options struct {
	Device uint64
	Ports  []string // network interfaces, in the order of their numbers
	Start  func(program []byte) (Engine, error)
	Log    *slog.Logger
	// NoRegisters answers UNIMPLEMENTED to registers, and to a hold, as other switches do.
	NoRegisters bool
}

// Server is a switch for controllers.
type Server struct {
	p4v1.UnimplementedP4RuntimeServer
	o Options

	configuring sync.Mutex // held while a pipeline is set, which takes seconds
	mu          sync.Mutex
	elections   *elections
	clients     map[int]*client // by number of the stream
	streams     int             // so far
	active      *running        // has the ports; nil: none
	saved       *running        // waits for a COMMIT; nil: none
	ended       error           // why the last engine ended by itself
	closed      bool
}

// running is a pipeline on its engine.
type running struct {
	engine Engine
	state  *state
	config *p4v1.ForwardingPipelineConfig
	holds  map[int]int // that controllers have not released, by number of the stream
}

// New makes a switch without a pipeline.
func New(o Options) *Server {
	return &Server{o: o, elections: newElections(), clients: make(map[int]*client)}
}

// Close ends the engines. No request may come later.
func (s *Server) Close() error {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, p := range []*running{s.active, s.saved} {
		if p != nil {
			errs = append(errs, p.engine.Close())
		}
	}
	s.active, s.saved = nil, nil
	return errors.Join(errs...)
}

func (s *Server) checkDevice(id uint64) error {
	if id != s.o.Device {
		return status.Errorf(codes.NotFound, "the switch is device %d, not %d", s.o.Device, id)
	}
	return nil
}

// target is the pipeline that requests are about.
func (s *Server) target() (*running, error) {
	switch {
	case s.saved != nil:
		return s.saved, nil
	case s.active != nil:
		return s.active, nil
	case s.ended != nil:
		return nil, status.Errorf(codes.FailedPrecondition,
			"the switch has no pipeline, because its engine ended (%v): set a pipeline again", s.ended)
	}
	return nil, status.Error(codes.FailedPrecondition, "the switch has no pipeline: set one")
}

// Capabilities says which version the switch speaks.
func (s *Server) Capabilities(_ context.Context, r *p4v1.CapabilitiesRequest) (*p4v1.CapabilitiesResponse, error) {
	if id := r.GetDeviceId(); id != 0 {
		if err := s.checkDevice(id); err != nil {
			return nil, err
		}
	}
	return &p4v1.CapabilitiesResponse{P4RuntimeApiVersion: Version}, nil
}

// attend passes on the engine's frames for controllers, until the engine ends.
func (s *Server) attend(p *running) {
	for left := range p.engine.ForCPU() {
		s.mu.Lock()
		if s.active == p {
			s.packetIn(p.state.pipe, left.Frame)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != p && s.saved != p {
		return
	}
	// The tables and registers are gone, and so is the pipeline: controllers see it as that of a switch that restarted.
	s.ended = p.engine.Err()
	if s.active == p {
		s.active = nil
	} else {
		s.saved = nil
	}
	s.o.Log.Error("the engine ended, and its pipeline is lost", "error", s.ended)
}
