package p4runtime

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/wire"
)

// plain is a server that can no more than PI's: no registers, no atomic batches, no requests of this project.
type plain struct {
	lacking
	failing *bool // writes make the first update only
}

func (s plain) Write(ctx context.Context, r *p4v1.WriteRequest) (*p4v1.WriteResponse, error) {
	switch {
	case r.GetAtomicity() != p4v1.WriteRequest_CONTINUE_ON_ERROR:
		return nil, status.Error(codes.Unimplemented, "no atomic writes")
	case *s.failing:
		r.Updates = r.GetUpdates()[:1]
		_, err := s.lacking.Write(ctx, r)
		return nil, errors.Join(status.Error(codes.Unknown, "the second update failed"), err)
	}
	return s.lacking.Write(ctx, r)
}

func (s plain) GetForwardingPipelineConfig(
	ctx context.Context, r *p4v1.GetForwardingPipelineConfigRequest,
) (*p4v1.GetForwardingPipelineConfigResponse, error) {
	is, err := s.lacking.GetForwardingPipelineConfig(ctx, r)
	if err == nil && is.GetConfig() == nil {
		err = status.Error(codes.FailedPrecondition, "no config")
	}
	return is, err
}

func (s plain) StreamChannel(stream p4v1.P4Runtime_StreamChannelServer) error {
	return s.Server.StreamChannel(withoutOthers{stream})
}

type withoutOthers struct {
	p4v1.P4Runtime_StreamChannelServer
}

func (w withoutOthers) Recv() (*p4v1.StreamMessageRequest, error) {
	for {
		m, err := w.P4Runtime_StreamChannelServer.Recv()
		if err != nil || m.GetOther() == nil {
			return m, err
		}
	}
}

func plainRig(t *testing.T) (r *rig, failing *bool) {
	failing = new(bool)
	return newRigOf(t, func(s *Server) p4v1.P4RuntimeServer {
		return plain{lacking{Server: s, read: hasRegisters, write: hasRegisters}, failing}
	}), failing
}

// TestPlainServer: a node works on a switch whose server makes no atomic batches and ignores requests of this project.
func TestPlainServer(t *testing.T) {
	r, failing := plainRig(t)
	h, sw := stepsNode(r)
	if !sw.Steps() || !sw.plain {
		t.Fatalf("steps: %v, plain: %v", sw.Steps(), sw.plain)
	}
	want := chain.Object{Version: 3, Committed: 3, Epoch: 1, Value: []byte("value")}
	k := wire.Key{Lo: 7}
	if err := h.Import([]dataplane.KeyedObject{{Key: k, Object: want}}, nil); err != nil {
		t.Fatal(err)
	}
	if is, ok, err := h.Object(k); err != nil || !ok || is.Version != 3 || string(is.Value) != "value" {
		t.Errorf("%+v, %v, %v", is, ok, err)
	}
	if _, err := sw.Try(0, make([]byte, 64)); err == nil || !strings.Contains(err.Error(), "tries no packets") {
		t.Errorf("a packet is tried: %v", err)
	}
	routes := make([]p4.Route, 4097-len(stepsHosts)) // which have routes, too
	for i := range routes {
		routes[i].To = netip.AddrFrom4([4]byte{10, 78, byte(i >> 8), byte(i)})
	}
	if err := h.ChangeRoutes(routes, nil); err == nil || !strings.Contains(err.Error(), "a table is full") {
		t.Errorf("too many routes: %v", err)
	}
	if err := h.ChangeRoutes(routes[1:], nil); err != nil {
		t.Errorf("as many routes as fit: %v", err)
	}
	*failing = true
	if err := h.ChangeRoutes(nil, routes[1:3]); !errors.Is(err, p4.ErrGone) {
		t.Errorf("half a change: %v", err)
	}
	wantGone(t, sw, "a part of a change only")
}
