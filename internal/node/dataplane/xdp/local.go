package xdp

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// localPause keeps a socket that fails without being closed (no memory in the kernel) from turning into a busy loop.
const localPause = 10 * time.Millisecond

// localServer serves clients on the node's own machine, whose packets reach the socket because they never pass a port.
// It runs the same program on them. Heartbeats and plain READs do not come here: nq_grow answers them on the loopback
// device. The program for all packets would cost all of the machine's local traffic there.
type localServer struct {
	plane *Plane
	done  chan struct{}
}

func serveLocal(p *Plane) *localServer {
	s := &localServer{plane: p, done: make(chan struct{})}
	go s.run()
	return s
}

// wait returns when the socket is closed and the last message is served.
func (s *localServer) wait() { <-s.done }

func (s *localServer) run() {
	defer close(s.done)
	message := make([]byte, wire.MaxDatagramBytes+1)
	for {
		n, from, err := s.plane.socket.ReadFromUDPAddrPort(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(localPause)
			continue
		}
		s.serve(message[:n], from)
	}
}

// serve runs one message through the program and sends the resulting messages. A failure is a lost packet.
func (s *localServer) serve(message []byte, from netip.AddrPort) {
	p := s.plane
	p.running.RLock()
	defer p.running.RUnlock()
	in := frame.Append(nil, &frame.Packet{From: from, To: p.node, Message: message})
	action, out, err := runOnce(p.objects.Ingress, in, 0)
	if err != nil || (action != xdpTX && action != xdpRedirect) {
		return
	}
	if sent, err := frame.ReadSent(out); err == nil {
		_, _ = p.socket.WriteToUDPAddrPort(sent.Message, sent.To)
	}
}
