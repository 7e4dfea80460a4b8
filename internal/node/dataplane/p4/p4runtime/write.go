package p4runtime

import (
	"context"
	"errors"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Write makes updates of the pipeline that was set last.
func (s *Server) Write(_ context.Context, r *p4v1.WriteRequest) (*p4v1.WriteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayChange(r.GetDeviceId(), r.GetRoleId(), r.GetRole(), r.GetElectionId()); err != nil {
		return nil, err
	}
	p, err := s.target()
	if err != nil {
		return nil, err
	}
	switch r.GetAtomicity() {
	case p4v1.WriteRequest_CONTINUE_ON_ERROR:
		err = p.writeEach(r.GetUpdates())
	case p4v1.WriteRequest_ROLLBACK_ON_ERROR, p4v1.WriteRequest_DATAPLANE_ATOMIC:
		err = p.writeAll(r.GetUpdates())
	default:
		err = status.Errorf(codes.Unimplemented, "the switch has no atomicity %v", r.GetAtomicity())
	}
	if err != nil {
		return nil, err
	}
	return &p4v1.WriteResponse{}, nil
}

// mayChange says whether a request comes from a primary.
func (s *Server) mayChange(device, roleID uint64, role string, id *p4v1.Uint128) error {
	if err := s.checkDevice(device); err != nil {
		return err
	}
	if roleID != 0 {
		return status.Errorf(codes.NotFound, "the switch has no role %d: roles have names", roleID)
	}
	return s.elections.check(role, idOf(id))
}

// plan makes updates in the state. Those that fail have an error.
func (p *running) plan(updates []*p4v1.Update) (changes []change, errs []error) {
	changes, errs = make([]change, len(updates)), make([]error, len(updates))
	for i, u := range updates {
		changes[i], errs[i] = p.state.update(u)
	}
	return changes, errs
}

func undo(changes []change) {
	for i := len(changes) - 1; i >= 0; i-- {
		changes[i].undo()
	}
}

// commit makes changes in the engine: all, or none of those of tables.
func (p *running) commit(changes ...change) error {
	var r p4.Request
	for _, c := range changes {
		c.add(&r)
	}
	return p.engine.Do(&r)
}

// writeEach makes each update that can be made.
func (p *running) writeEach(updates []*p4v1.Update) error {
	changes, errs := p.plan(updates)
	if err := p.commit(changes...); err != nil {
		undo(changes)
		if errors.Is(err, p4.ErrGone) {
			return status.Error(codes.Unavailable, err.Error())
		}
		// A table of hashes may be full before it has all its entries. Made one by one, the updates tell which.
		for i, u := range updates {
			c, err := p.state.update(u)
			if err == nil {
				if err = p.commit(c); err != nil {
					c.undo()
					err = engineError(err)
				}
			}
			errs[i] = err
		}
	}
	return batchError("some updates failed", errs)
}

// engineError is what a change that the state allows can fail for.
func engineError(err error) error {
	if errors.Is(err, p4.ErrGone) {
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.Error(codes.ResourceExhausted, err.Error())
}

// writeAll makes all updates or none, with no frame in between.
func (p *running) writeAll(updates []*p4v1.Update) error {
	changes, errs := p.plan(updates)
	if errors.Join(errs...) == nil {
		err := p.commit(changes...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, p4.ErrGone):
			undo(changes)
			return engineError(err)
		}
		for i := range errs {
			errs[i] = engineError(err)
		}
	}
	undo(changes)
	for i, err := range errs {
		if err == nil {
			errs[i] = status.Error(codes.Aborted, "another update of the batch failed")
		}
	}
	return batchError("no update was made, because some failed", errs)
}
