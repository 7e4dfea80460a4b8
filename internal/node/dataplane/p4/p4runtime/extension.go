package p4runtime

import (
	"errors"
	"math/bits"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/netcraq/netcraq/api/switchv1"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// other handles a message that P4Runtime leaves to the switch: a request of this project.
func (s *Server) other(c *client, m *anypb.Any) {
	r := new(switchv1.Request)
	if err := m.UnmarshalTo(r); err != nil {
		c.report(status.Error(codes.Unimplemented, "the switch knows no such messages"), &p4v1.StreamError{
			Details: &p4v1.StreamError_Other{Other: &p4v1.StreamOtherError{Other: m}},
		})
		return
	}
	answer := &switchv1.Answer{Number: r.GetNumber(), Now: dataplane.BootTime()}
	if err := s.extension(c, r, answer); err != nil {
		is := status.Convert(err)
		answer.Code, answer.Message = int32(is.Code()), is.Message()
	}
	packed, err := anypb.New(answer)
	if err != nil { // a message from outside is not UTF-8
		packed = new(anypb.Any)
	}
	c.must(&p4v1.StreamMessageResponse{Update: &p4v1.StreamMessageResponse_Other{Other: packed}})
}

// extension does what a request asks for.
func (s *Server) extension(c *client, r *switchv1.Request, answer *switchv1.Answer) error {
	if !s.elections.isPrimary(c.number) {
		return status.Error(codes.PermissionDenied, "this controller is not primary")
	}
	p, err := s.target()
	if err != nil {
		return err
	}
	switch what := r.GetWhat().(type) {
	case *switchv1.Request_Hold:
		if p.state.pipe.noRegisters {
			return status.Error(codes.Unimplemented, "the switch holds nothing")
		}
		return extensionError(p.hold(c.number))
	case *switchv1.Request_Release:
		if p.holds[c.number] == 0 {
			return status.Error(codes.FailedPrecondition, "this controller holds nothing")
		}
		return extensionError(p.release(c.number))
	case *switchv1.Request_Try:
		left, err := p.engine.Try(int(what.Try.GetPort()), what.Try.GetFrame())
		for _, l := range left {
			answer.Left = append(answer.Left, &switchv1.Packet{Port: uint32(l.Port), Frame: l.Frame})
		}
		return extensionError(err)
	case *switchv1.Request_Clock:
		if what.Clock.GetAsk() {
			return nil
		}
		return extensionError(p.engine.SetClock(what.Clock.GetStop()))
	case *switchv1.Request_Rows:
		answer.Values, err = p.rows(what.Rows.GetRows())
		return err
	}
	return status.Error(codes.Unimplemented, "the switch knows no such request")
}

// rows reads and writes places in a row.
func (p *running) rows(rows []*switchv1.Row) ([]uint64, error) {
	var r p4.Request
	var values []uint64 // that are read
	places, n := 0, 0
	for _, row := range rows {
		a, err := p.state.pipe.rowOf(row)
		if err != nil {
			return nil, err
		}
		first, count := int(row.GetFirst()), int(row.GetCount())
		if places += count + len(row.GetValues()); places > readBatch {
			return nil, invalid("a request reads and writes %d places at most", readBatch)
		}
		if count == 0 {
			r.Write(a.name, first, row.GetValues()...)
			continue
		}
		at := n - first
		r.Visit(a.name, first, count, func(i int, v uint64) { values[at+i] = v })
		n += count
	}
	values = make([]uint64, n)
	return values, extensionError(p.engine.Do(&r))
}

// rowOf checks a row, and finds its array.
func (p *pipeline) rowOf(row *switchv1.Row) (*array, error) {
	a := arrayOf(p.registers, row.GetArray())
	if a != nil && p.noRegisters {
		return nil, errNoRegisters
	}
	if a == nil {
		a = arrayOf(p.counters, row.GetArray())
	}
	if a == nil {
		return nil, invalid("the P4Info has no array %d", row.GetArray())
	}
	if row.GetCount() != 0 && len(row.GetValues()) != 0 {
		return nil, invalid("a row is read or written, not both")
	}
	end := uint64(row.GetFirst()) + uint64(row.GetCount()) + uint64(len(row.GetValues()))
	if end > uint64(a.size) {
		return nil, status.Errorf(codes.OutOfRange, "a row of %s ends at %d: it has %d places", a.name, end, a.size)
	}
	for _, v := range row.GetValues() {
		if bits.Len64(v) > a.bits {
			return nil, invalid("the value %#x of %s does not fit in %d bits", v, a.name, a.bits)
		}
	}
	return a, nil
}

func extensionError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, p4.ErrGone):
		return status.Error(codes.Unavailable, err.Error())
	}
	return invalid("%v", err)
}

func (p *running) hold(stream int) error {
	if err := p.engine.Pause(true); err != nil {
		return err
	}
	p.holds[stream]++
	return nil
}

func (p *running) release(stream int) error {
	if err := p.engine.Pause(false); err != nil {
		return err
	}
	if p.holds[stream]--; p.holds[stream] == 0 {
		delete(p.holds, stream)
	}
	return nil
}

// releaseLost ends the holds of controllers that are no longer primary, so that none of them stops a switch for good.
func (s *Server) releaseLost() {
	for _, p := range []*running{s.active, s.saved} {
		if p == nil {
			continue
		}
		for stream := range p.holds {
			for !s.elections.isPrimary(stream) && p.holds[stream] > 0 {
				if err := p.release(stream); err != nil {
					return // the engine is gone
				}
			}
		}
	}
}
