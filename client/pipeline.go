package client

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
)

// batchMessages is how many messages one system call sends or receives at most.
const batchMessages = 64

// receiveBytes is the buffer asked for; the kernel may grant less.
const receiveBytes = 4 << 20

// pipeline runs many operations over one socket, for throughput. Each operation has a slot, whose number is in the low
// bits of its request ids. Three goroutines work on the slots under one lock: send.go, receive.go and clock.go. A
// goroutine that sends also takes the answers in the socket: a node on this machine has answered before the system call
// returns. Callbacks at the end of an operation run without the lock.
type pipeline struct {
	client   *Client
	conn     *net.UDPConn
	packets  *ipv4.PacketConn
	callers  atomic.Int32  // of Do
	trains   bool          // the kernel may cut messages into datagrams
	slotFree chan struct{} // wakes a goroutine that waits for a free slot, which wakes the next if there are more
	toSend   chan struct{} // wakes the sender
	toWatch  chan struct{} // wakes the clock
	closing  chan struct{}

	sending sync.Mutex // the sender's place; taken before mu
	out     *outgoing  // owned by the present sender

	receiving sync.Mutex       // taken before mu, and held until the received answers are judged
	present   *ipv4.PacketConn // reads what is in the socket, without a wait; nil: not on this system
	in        *inbox           // of drain

	mu         sync.Mutex
	slots      []slot
	free       []uint16
	ready      []uint16 // queued slots, in order
	inFlight   int      // slots that wait for answers
	congestion congestion
	reads      readSlotSize
	looked     time.Time // the clock's latest look at the slots
	excused    bool      // that look found the process paused
	closed     bool      // the goroutines have been told to end
}

// slot is the place of one operation.
type slot struct {
	call
	wakeAfter time.Duration // since the call began; waiting, pausing: when to send the next attempt
	use       uint32        // counts the operations that had this slot
	number    uint32        // for the sink
	state     state
}

type state uint8

const (
	unused  state = iota
	queued        // to be sent
	waiting       // for the answer to an attempt
	pausing       // before the next attempt; a late answer still ends it
)

// finished is an operation that has ended and of which its sink will be told.
type finished struct {
	sink   sink
	number uint32
}

func report(all []finished) {
	for _, f := range all {
		f.sink.ended(int(f.number))
	}
}

// pipes are the client's pipelines, one for each CPU but no more than maxSockets. Each is made when it is first needed,
// but all sockets with the first, on the goroutine that needs it: its thread may be in another network namespace.
type pipes struct {
	most   int
	mu     sync.Mutex
	conns  []*net.UDPConn // of all, also of those to be made
	all    []*pipeline
	closed bool
}

// first returns the pipeline of single operations: the more share one, the fuller are its datagrams.
func (s *pipes) first(c *Client) (*pipeline, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && len(s.all) > 0 {
		return s.all[0], nil
	}
	return s.add(c)
}

// quietest returns the pipeline that the fewest callers use. The caller releases it.
func (s *pipes) quietest(c *Client) (*pipeline, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *pipeline
	for _, p := range s.all {
		if best == nil || p.callers.Load() < best.callers.Load() {
			best = p
		}
	}
	if s.closed || best == nil || best.callers.Load() > 0 && len(s.all) < s.most {
		var err error
		if best, err = s.add(c); err != nil {
			return nil, err
		}
	}
	best.callers.Add(1)
	return best, nil
}

func (p *pipeline) release() { p.callers.Add(-1) }

// add makes a pipeline. The caller holds the lock.
func (s *pipes) add(c *Client) (*pipeline, error) {
	if s.closed {
		return nil, ErrClosed
	}
	for len(s.conns) < s.most {
		conn, err := listen(&c.options)
		if err != nil {
			return nil, err
		}
		_ = conn.SetReadBuffer(receiveBytes) // less only means that bursts are lost sooner
		s.conns = append(s.conns, conn)
	}
	p := newPipeline(c, s.conns[len(s.all)], len(s.all))
	s.all = append(s.all, p)
	return p, nil
}

func (s *pipes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		for _, p := range s.all {
			p.close()
		}
		for _, conn := range s.conns[len(s.all):] {
			conn.Close()
		}
	}
	s.closed = true
}

// reroute sends again the attempts that wait for a chain that has changed.
func (s *pipes) reroute() {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, p := range all {
		p.reroute()
	}
}

func (p *pipeline) reroute() {
	p.mu.Lock()
	for i := range p.slots {
		if s := &p.slots[i]; (s.state == waiting || s.state == pausing) && s.overtaken() {
			p.queue(uint16(i))
		}
	}
	p.mu.Unlock()
	wake(p.toSend)
}

func newPipeline(c *Client, conn *net.UDPConn, number int) *pipeline {
	p := preparePipeline(c, conn, number)
	go p.sender()
	go p.receiver()
	go p.clock()
	return p
}

// preparePipeline makes a pipeline without its goroutines.
func preparePipeline(c *Client, conn *net.UDPConn, number int) *pipeline {
	window := c.options.Window
	p := &pipeline{
		client:   c,
		conn:     conn,
		packets:  ipv4.NewPacketConn(conn),
		present:  presentOf(conn),
		in:       newInbox(drainMessages),
		trains:   cutsTrains(conn),
		slotFree: make(chan struct{}, 1),
		toSend:   make(chan struct{}, 1),
		toWatch:  make(chan struct{}, 1),
		closing:  make(chan struct{}),
		slots:    make([]slot, window),
		out:      newOutgoing(number),

		congestion: newCongestion(window),
	}
	for i := range window {
		p.free = append(p.free, uint16(window-1-i))
	}
	return p
}

// together is how many operations begin with one look at the clocks, and are ready to be sent at one moment.
const together = 256

// submit starts operations when there is room for them; the caller sees to it that they are sent. The sink is told of
// every end, errors here included.
func (p *pipeline) submit(ctx context.Context, w *work, to sink) {
	var slots [together]uint16
	for first := 0; first < len(w.outcomes); {
		n, err := p.reserve(ctx, slots[:min(together, len(w.outcomes)-first)])
		if err != nil {
			for ; first < len(w.outcomes); first++ {
				w.outcomes[first].Err = err
				to.ended(first)
			}
			return
		}
		p.launch(ctx, w, first, slots[:n], to)
		if first += n; first < len(w.outcomes) {
			p.send()
		}
	}
}

// reserve takes free slots, as many as there are but no more than asked for, and waits for at least one.
func (p *pipeline) reserve(ctx context.Context, slots []uint16) (int, error) {
	for {
		p.mu.Lock()
		n := copy(slots, p.free[max(len(p.free)-len(slots), 0):])
		p.free = p.free[:len(p.free)-n]
		more := len(p.free) > 0
		p.mu.Unlock()
		if n > 0 {
			if more {
				wake(p.slotFree)
			}
			return n, nil
		}
		select {
		case <-p.slotFree:
		case <-ctx.Done():
			return 0, contextError(ctx.Err())
		case <-p.closing:
			return 0, ErrClosed
		}
	}
}

// launch begins operations, from the given one on, in slots that were reserved for them.
func (p *pipeline) launch(ctx context.Context, w *work, first int, slots []uint16, to sink) {
	at := p.client.start(ctx, w.writes(first, first+len(slots)))
	at.to = to
	for n, i := range slots { // unused until queued: no other goroutine looks at them
		s, number := &p.slots[i], first+n
		op, key, err := w.at(number)
		if s.begin(&at, op, &key, &w.outcomes[number]); err != nil {
			s.outcome.Err = err
		}
		s.number = uint32(number)
	}
	var ends []finished
	p.mu.Lock()
	for _, i := range slots {
		s := &p.slots[i]
		if s.outcome.Err == nil && p.closed {
			s.expire(ErrClosed)
		}
		if s.outcome.Err != nil {
			ends = p.finish(i, ends)
		} else {
			p.queue(i)
		}
	}
	p.mu.Unlock()
	report(ends)
	wake(p.toWatch)
}

// queue has a slot sent. The caller holds the lock, and wakes the sender.
func (p *pipeline) queue(i uint16) {
	p.move(&p.slots[i], queued)
	p.ready = append(p.ready, i)
}

// move changes a slot's state. The caller holds the lock.
func (p *pipeline) move(s *slot, to state) {
	if s.state == waiting {
		p.inFlight--
	}
	if to == waiting {
		p.inFlight++
	}
	s.state = to
}

// vacate gives a slot back. The caller holds the lock.
func (p *pipeline) vacate(i uint16) {
	s := &p.slots[i]
	p.move(s, unused)
	s.clear()
	s.use++
	p.free = append(p.free, i)
	if len(p.free) == 1 {
		wake(p.slotFree)
	}
}

// finish takes an ended call out of its slot. The caller holds the lock, and reports when it has let it go.
func (p *pipeline) finish(i uint16, ends []finished) []finished {
	s := &p.slots[i]
	ends = append(ends, finished{s.start.to, s.number})
	p.vacate(i)
	return ends
}

// close ends everything under way.
func (p *pipeline) close() {
	close(p.closing)
	p.conn.Close()
	var ends []finished
	p.mu.Lock()
	p.closed = true
	for i := range p.slots {
		if p.slots[i].state != unused {
			p.slots[i].expire(ErrClosed)
			ends = p.finish(uint16(i), ends)
		}
	}
	p.mu.Unlock()
	report(ends)
}

// wake lets the goroutine that waits on c, or that will, run once more.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
