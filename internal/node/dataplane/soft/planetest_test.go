package soft

import (
	"net"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/planetest"
	"github.com/netcraq/netcraq/wire"
)

func TestPlane(t *testing.T) {
	planetest.Run(t, func(t *testing.T) planetest.Node {
		p, err := Listen(netip.MustParseAddrPort("127.1.0.1:0"), planetest.Options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return planetest.Node{Plane: p, Ask: func(m *wire.Message) (reply wire.Message, answered bool, err error) {
			socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.Addr()))
			if err != nil {
				return reply, false, err
			}
			defer socket.Close()
			if _, err := socket.Write(m.Append(nil)); err != nil {
				return reply, false, err
			}
			buffer := make([]byte, wire.MaxMessageBytes)
			n, err := socket.Read(buffer)
			if err != nil {
				return reply, false, err
			}
			return reply, true, wire.DecodeReply(buffer[:n], &reply)
		}}
	})
}
