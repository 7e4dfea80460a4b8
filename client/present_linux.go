package client

import (
	"net"
	"syscall"

	"golang.org/x/net/ipv4"
)

const dontWait = syscall.MSG_DONTWAIT

// presentOf returns a second reader of a socket, which does not wait if it is given dontWait. It has to be another one:
// a goroutine that waits on the first keeps others from it.
func presentOf(conn *net.UDPConn) *ipv4.PacketConn { return ipv4.NewPacketConn(unlocked{conn}) }

// unlocked is a socket that may be read while a goroutine waits for it.
type unlocked struct{ *net.UDPConn }

// SyscallConn returns a connection whose Read calls its function once.
func (u unlocked) SyscallConn() (syscall.RawConn, error) {
	raw, err := u.UDPConn.SyscallConn()
	return once{raw}, err
}

type once struct{ syscall.RawConn }

func (o once) Read(f func(fd uintptr) bool) error { return o.Control(func(fd uintptr) { f(fd) }) }
