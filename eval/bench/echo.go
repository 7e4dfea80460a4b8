package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// echoServer answers every datagram with one of a given size, as fast as sockets allow: it moves
// many datagrams per system call, with one thread per CPU.
type echoServer struct {
	fd      int
	stopped atomic.Bool
	threads sync.WaitGroup
}

const (
	echoBatch       = 64
	echoBufferBytes = 2048
	echoQueueBytes  = 64 << 20
)

// newEchoServer starts the server in the host. If answerBytes is 0, it returns each datagram
// unchanged.
func newEchoServer(h *host, addr netip.AddrPort, answerBytes int) (*echoServer, error) {
	s := new(echoServer)
	if err := h.do(func() error { return s.open(addr) }); err != nil {
		return nil, fmt.Errorf("echo server on %v: %w", addr, err)
	}
	for range runtime.NumCPU() {
		s.threads.Go(func() { s.serve(answerBytes) })
	}
	return s, nil
}

func (s *echoServer) open(addr netip.AddrPort) error {
	var err error
	s.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	timeout := unix.Timeval{Usec: 100_000} // upper bound on how late a thread notices close
	return errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, echoQueueBytes),
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, echoQueueBytes),
		unix.Bind(s.fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
	)
}

// multiMessage is struct mmsghdr.
type multiMessage struct {
	header unix.Msghdr
	length uint32
}

// serve runs one thread of the server.
func (s *echoServer) serve(answerBytes int) {
	var (
		messages [echoBatch]multiMessage
		peers    [echoBatch]unix.RawSockaddrInet4
		vectors  [echoBatch]unix.Iovec
		buffers  = make([]byte, echoBatch*echoBufferBytes)
	)
	for i := range messages {
		vectors[i].Base = &buffers[i*echoBufferBytes]
		messages[i].header = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&peers[i])), Iov: &vectors[i], Iovlen: 1}
	}
	for !s.stopped.Load() {
		for i := range messages {
			vectors[i].SetLen(echoBufferBytes)
			messages[i].header.Namelen = unix.SizeofSockaddrInet4
		}
		n := s.transfer(unix.SYS_RECVMMSG, messages[:], unix.MSG_WAITFORONE)
		for i := range n {
			vectors[i].SetLen(int(messages[i].length))
			if answerBytes > 0 {
				vectors[i].SetLen(answerBytes)
			}
		}
		for sent := 0; sent < n; {
			k := s.transfer(unix.SYS_SENDMMSG, messages[sent:n], 0)
			if k == 0 {
				break // the counter on the other side counts unsent answers as lost
			}
			sent += k
		}
	}
	runtime.KeepAlive(&peers)
}

// transfer receives or sends several datagrams and returns their number. It returns 0 on any error
// and after close.
func (s *echoServer) transfer(call uintptr, messages []multiMessage, flags uintptr) int {
	if len(messages) == 0 {
		return 0
	}
	n, err := eintr.Value(func() (uintptr, error) {
		if s.stopped.Load() {
			return 0, net.ErrClosed
		}
		n, _, errno := unix.Syscall6(call, uintptr(s.fd), uintptr(unsafe.Pointer(&messages[0])),
			uintptr(len(messages)), flags, 0, 0)
		if errno != 0 {
			return 0, errno
		}
		return n, nil
	})
	if err != nil {
		return 0
	}
	return int(n)
}

func (s *echoServer) close() {
	s.stopped.Store(true)
	s.threads.Wait()
	unix.Close(s.fd)
}
