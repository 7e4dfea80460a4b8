package client

import (
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
	awaitDatagram(t, s)
	at.writeUntil = at.now.Add(-time.Second) // it passed during the pause
	if ended := s.attempt(t.Context(), time.Now()); !ended || s.call.outcome.Err != nil {
		t.Errorf("ended: %v, %v", ended, s.call.outcome.Err)
	}
}

// awaitDatagram waits until a datagram is in the socket, and leaves it there.
func awaitDatagram(t *testing.T, s *socket) {
	raw, err := s.conn.SyscallConn()
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
