package p4runtime

import (
	"context"
	"errors"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

type setRequest = p4v1.SetForwardingPipelineConfigRequest

// SetForwardingPipelineConfig tries, keeps or runs a program.
func (s *Server) SetForwardingPipelineConfig(
	_ context.Context, r *setRequest,
) (*p4v1.SetForwardingPipelineConfigResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if err := s.mayConfigure(r); err != nil {
		return nil, err
	}
	var err error
	switch r.GetAction() {
	case p4v1.SetForwardingPipelineConfigRequest_COMMIT:
		err = s.commitSaved(r)
	case p4v1.SetForwardingPipelineConfigRequest_VERIFY, p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE,
		p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT:
		err = s.verify(r)
	default:
		err = invalid("a request has an action")
	}
	if err != nil {
		return nil, err
	}
	return &p4v1.SetForwardingPipelineConfigResponse{}, nil
}

func (s *Server) mayConfigure(r *setRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return status.Error(codes.Unavailable, "the switch ends")
	}
	return s.mayChange(r.GetDeviceId(), r.GetRoleId(), r.GetRole(), r.GetElectionId())
}

func (s *Server) commitSaved(r *setRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.GetConfig() != nil:
		return invalid("COMMIT takes the config that was saved: give none")
	case s.saved == nil:
		return status.Error(codes.NotFound, "no config is saved: use VERIFY_AND_SAVE first")
	}
	return s.run(s.saved)
}

// verify starts the program without ports, and keeps it as the action says. Starting takes long, so another
// controller may be primary when it has started.
func (s *Server) verify(r *setRequest) error {
	p, err := s.start(r.GetConfig())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayChange(r.GetDeviceId(), r.GetRoleId(), r.GetRole(), r.GetElectionId()); err != nil {
		s.end(p)
		return err
	}
	switch r.GetAction() {
	case p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE:
		s.end(s.saved)
		s.saved = p
		go s.attend(p)
	case p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT:
		go s.attend(p)
		return s.run(p)
	case p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT:
		err := s.reconcile(p)
		if s.active == p {
			go s.attend(p)
		} else {
			s.end(p)
		}
		return err
	default:
		s.end(p)
	}
	return nil
}

// start runs the program of a config on an engine without network ports.
func (s *Server) start(c *p4v1.ForwardingPipelineConfig) (*running, error) {
	if c.GetP4Info() == nil || len(c.GetP4DeviceConfig()) == 0 {
		return nil, invalid("a config has a P4Info and a device config, the program compiled for SWX")
	}
	pipe, err := resolve(c.GetP4Info(), c.GetP4DeviceConfig())
	if err != nil {
		return nil, invalid("%v", err)
	}
	pipe.noRegisters = s.o.NoRegisters
	engine, err := s.o.Start(c.GetP4DeviceConfig())
	if errors.Is(err, p4.ErrGone) {
		return nil, invalid("the engine refuses the program: %v", err)
	}
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the engine does not start: %v", err)
	}
	return &running{engine, newState(pipe), c, make(map[int]int)}, nil
}

// run gives a pipeline the ports, in place of the one that has them.
func (s *Server) run(p *running) error {
	if s.saved != p {
		s.end(s.saved)
	}
	s.end(s.active)
	s.active, s.saved, s.ended = p, nil, nil
	for _, name := range s.o.Ports {
		if err := p.engine.Open(name); err != nil {
			return status.Errorf(codes.Unavailable,
				"the pipeline runs without all its ports (%v): set it again when the interface is there", err)
		}
	}
	s.o.Log.Info("pipeline set", "program", p.config.GetP4Info().GetPkgInfo().GetName(),
		"cookie", p.config.GetCookie().GetCookie())
	return nil
}

// end ends a pipeline that nothing refers to any more.
func (s *Server) end(p *running) {
	if p == nil {
		return
	}
	if s.saved == p {
		s.saved = nil
	}
	if s.active == p {
		s.active = nil
	}
	if err := p.engine.Close(); err != nil {
		s.o.Log.Warn("an engine did not end in order", "error", err)
	}
}

// GetForwardingPipelineConfig returns the config that requests are about.
func (s *Server) GetForwardingPipelineConfig(
	_ context.Context, r *p4v1.GetForwardingPipelineConfigRequest,
) (*p4v1.GetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkDevice(r.GetDeviceId()); err != nil {
		return nil, err
	}
	p, err := s.target()
	if err != nil {
		return &p4v1.GetForwardingPipelineConfigResponse{}, nil // unset: there is none
	}
	c := &p4v1.ForwardingPipelineConfig{Cookie: p.config.GetCookie()}
	switch r.GetResponseType() {
	case p4v1.GetForwardingPipelineConfigRequest_ALL:
		c.P4Info, c.P4DeviceConfig = p.config.GetP4Info(), p.config.GetP4DeviceConfig()
	case p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:
		c.P4Info = p.config.GetP4Info()
	case p4v1.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE:
		c.P4DeviceConfig = p.config.GetP4DeviceConfig()
	case p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY:
	default:
		return nil, invalid("the switch knows no response type %v", r.GetResponseType())
	}
	return &p4v1.GetForwardingPipelineConfigResponse{Config: c}, nil
}
