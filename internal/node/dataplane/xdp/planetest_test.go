package xdp

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/planetest"
	"github.com/netcraq/netcraq/wire"
)

func TestPlane(t *testing.T) {
	planetest.Run(t, func(t *testing.T) planetest.Node {
		o := testOptions(t)
		o.Chain, o.Pin = planetest.Options, ""
		var p *Plane
		inNamespace(t, func() (err error) {
			p, err = Open(o)
			return err
		})
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return planetest.Node{Plane: p, Ask: p.objects.ask}
	})
}

// ask runs one message through the program; false if it was dropped.
func (o *objects) ask(m *wire.Message) (reply wire.Message, answered bool, err error) {
	p := frame.Packet{From: at(9), To: conformance.Me, Message: m.Append(nil)}
	run := ebpf.RunOptions{Data: frame.Append(nil, &p), DataOut: make([]byte, maxFrame)}
	action, err := o.Ingress.Run(&run)
	if err != nil || action == xdpDrop {
		return reply, false, err
	}
	sent, err := frame.ReadSent(run.DataOut)
	if err != nil {
		return reply, false, err
	}
	return reply, true, wire.DecodeReply(sent.Message, &reply)
}
