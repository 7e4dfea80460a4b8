package p4

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Bare is a program on network interfaces without a control plane.
type Bare struct {
	sw   *SWX
	sink int
}

// OpenBare runs a program on interfaces of the calling thread's namespace. The host's network stack does not answer
// frames for addr, which are the program's.
func OpenBare(program []byte, addr netip.AddrPort, interfaces ...string) (*Bare, error) {
	sink, err := openSink(addr)
	if err != nil {
		return nil, err
	}
	sw, err := StartSWX(program, EngineMegabytes, interfaces...)
	if err != nil {
		return nil, errors.Join(err, unix.Close(sink))
	}
	return &Bare{sw: sw, sink: sink}, nil
}

// Do makes changes and then reads, with no frame in between.
func (b *Bare) Do(r *Request) error { return b.sw.Do(r) }

// Close ends the program.
func (b *Bare) Close() error { return errors.Join(b.sw.Close(), unix.Close(b.sink)) }
