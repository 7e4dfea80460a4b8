package client

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// TestAnswersOfAPause: the process of a client is paused while the answer to its write arrives, until the write's time
// is up. The write succeeds.
func TestAnswersOfAPause(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c := newClient(t, Options{Cluster: nodes.cluster})
	s, err := c.sockets.take(&c.options)
	if err != nil {
		t.Fatal(err)
	}
	op := PutOp("k", []byte("v"))
	at := c.start(t.Context(), true)
	begin(t, &s.call, &at, &op)
	message, to, ok := s.call.next(at.now, c.requestID(0), s.out[:0])
	if !ok {
		t.Fatal(s.call.outcome.Err)
	}
	if _, err := s.conn.WriteToUDPAddrPort(message, to.addr); err != nil {
		t.Fatal(err)
	}
	awaitDatagram(t, s.conn)
	at.writeUntil = at.now.Add(-time.Second) // it passed during the pause
	if ended := s.attempt(t.Context(), time.Now()); !ended || s.call.outcome.Err != nil {
		t.Errorf("ended: %v, %v", ended, s.call.outcome.Err)
	}
}

// awaitDatagram waits until a datagram is in the socket, and leaves it there.
func awaitDatagram(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		return eintr.Retry(func() error {
			_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			return err
		}) == nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnswersBeforeTheClock: the receiver of a pipeline does not run while the answer arrives, until the attempt's time
// is up. The clock takes the answer, and repeats nothing.
func TestAnswersBeforeTheClock(t *testing.T) {
	c := newClient(t, Options{Cluster: startCluster(t, 1, 1).cluster})
	conn, err := listen(&c.options)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := preparePipeline(c, conn, 0)
	op, ended := PutOp("k", []byte("v")), make(ends, 1)
	at, s := c.start(t.Context(), true), &p.slots[0]
	p.free = p.free[:len(p.free)-1] // slot 0
	begin(t, &s.call, &at, &op)
	at.to = ended
	p.queue(0)
	p.sendReady(p.out)
	awaitDatagram(t, conn)
	s.wakeAfter, p.looked = 0, time.Now()
	if p.watch(); len(ended) != 1 {
		t.Errorf("the put did not end; its slot is in state %d after %d misses", s.state, s.recent.misses)
	}
}

// TestFirstLookAfterAPause: the clock ends nothing at its first look after a pause, and does at the second, however
// late that is.
func TestFirstLookAfterAPause(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c := newClient(t, Options{Cluster: nodes.cluster})
	p := &pipeline{client: c, slots: make([]slot, 1), toSend: make(chan struct{}, 1), slotFree: make(chan struct{}, 1)}
	op, ended := GetOp("k"), make(ends, 1)
	at := c.start(t.Context(), false)
	s := &p.slots[0]
	begin(t, &s.call, &at, &op)
	s.state, s.wakeAfter = pausing, time.Hour
	at.to, at.until = ended, at.now
	if p.watch(); len(ended) != 0 {
		t.Error("the first look ended an operation")
	}
	p.looked = time.Time{}
	if p.watch(); len(ended) != 1 {
		t.Error("the second look did not end an operation whose time is up")
	}
}

// ends counts operations that ended.
type ends chan int

func (e ends) ended(i int) { e <- i }
