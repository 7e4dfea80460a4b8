package xdp

import (
	"encoding/binary"
	"errors"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// puntReader sends the messages that the program could not: those whose next hop had no link address, which the kernel
// resolves for a socket and knows the next time, and those to clients on this machine.
type puntReader struct {
	ring *ringbuf.Reader
	done chan struct{}
}

func readPunts(m *ebpf.Map, out *outlet) (*puntReader, error) {
	ring, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	r := &puntReader{ring: ring, done: make(chan struct{})}
	go r.run(out)
	return r, nil
}

func (r *puntReader) run(out *outlet) {
	defer close(r.done)
	var record ringbuf.Record
	for {
		err := r.ring.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		sendPunt(record.RawSample, out)
	}
}

// maxPuntAge is how long a message may wait for the agent. The ring outlives agents, and a message from before one was
// away must not appear when its writer's session has long been forgotten (W12).
const maxPuntAge = time.Second

// sendPunt sends one message. A failure is a lost packet, which the protocol survives.
func sendPunt(sample []byte, out *outlet) {
	var h nqPunt
	header := int(unsafe.Sizeof(h))
	if _, err := binary.Decode(sample, native, &h); err != nil || header+int(h.MessageBytes) > len(sample) {
		return
	}
	if dataplane.BootTime() > h.AtNS+uint64(maxPuntAge) {
		return
	}
	to := nqMember{Addr: h.Addr, Port: h.Port}.addrPort()
	end := header + int(h.MessageBytes)
	_ = out.send(sample[header:end:end], to)
}

func (r *puntReader) close() error {
	err := r.ring.Close()
	<-r.done
	return err
}
