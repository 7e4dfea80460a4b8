package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// datagramHeader is the length of memcached's UDP header: a request number that the answer repeats,
// and the number and count of the datagrams.
const datagramHeader = 8

const (
	// datagramPatience is the time until a request is sent again, the same as in NetCRAQ's client.
	datagramPatience  = 50 * time.Millisecond
	datagramMax       = 2048
	datagramsAtOnce   = 64 // per system call
	datagramReadBytes = 4 << 20
)

// datagramPool holds sockets connected to one server. Each serves one exchange at a time.
type datagramPool struct {
	server netip.AddrPort

	mu     sync.Mutex
	idle   []*datagramLink
	all    []*datagramLink
	closed bool
}

func newDatagramPool(server netip.AddrPort) *datagramPool { return &datagramPool{server: server} }

func (p *datagramPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed []error
	for _, l := range p.all {
		failed = append(failed, l.conn.Close())
	}
	p.closed, p.idle, p.all = true, nil, nil
	return errors.Join(failed...)
}

func (p *datagramPool) take() (*datagramLink, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, net.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return l, nil
	}
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.server))
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(datagramReadBytes) // a smaller buffer only loses bursts sooner
	l := &datagramLink{conn: conn, packets: ipv4.NewPacketConn(conn), in: make([]ipv4.Message, datagramsAtOnce)}
	for i := range l.in {
		l.in[i].Buffers = [][]byte{make([]byte, datagramMax)}
	}
	p.all = append(p.all, l)
	return l, nil
}

func (p *datagramPool) release(l *datagramLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, l)
}

// answered receives a datagram that answers request i and returns the number of answers in it.
type answered func(i int, answer []byte) (answers int)

// exchange sends requests with one answer each and repeats them until all are answered or ctx ends.
// It calls got once per request and returns the number of attempts.
func (p *datagramPool) exchange(ctx context.Context, requests [][]byte,
	got func(i int, answer []byte, err error)) (attempts int) {
	l, err := p.take()
	if err != nil {
		for i := range requests {
			got(i, nil, err)
		}
		return 0
	}
	defer p.release(l)
	l.begin(requests, func(int) int { return 1 })
	for err == nil && l.open > 0 {
		attempts++
		err = l.attempt(func(i int, answer []byte) int { got(i, answer, nil); return 1 })
		if err == nil {
			err = ctx.Err()
		}
	}
	for i, missing := range l.missing {
		if missing > 0 {
			got(i, nil, err)
		}
	}
	return attempts
}

// once sends each request once and passes the answers to got, until none is missing or the patience
// ends. Request i has answers(i) answers. The caller has to repeat requests whose answers were
// lost.
func (p *datagramPool) once(requests [][]byte, answers func(i int) int, got answered) error {
	l, err := p.take()
	if err != nil {
		return err
	}
	defer p.release(l)
	l.begin(requests, answers)
	return l.attempt(got)
}

// datagramLink is a socket and the exchange that it serves.
type datagramLink struct {
	conn    *net.UDPConn
	packets *ipv4.PacketConn
	in      []ipv4.Message
	out     []ipv4.Message
	first   uint16 // number of the exchange's first request
	next    uint16 // number of the next exchange's first request
	missing []int  // missing answers by request
	open    int    // missing answers of all requests
	message [][]byte
}

// begin numbers the requests; request i has answers(i) answers. Late answers of an earlier exchange
// have other numbers.
func (l *datagramLink) begin(requests [][]byte, answers func(i int) int) {
	l.first, l.open = l.next, 0
	l.next += uint16(len(requests))
	l.missing, l.message = l.missing[:0], l.message[:0]
	for i, request := range requests {
		header := make([]byte, datagramHeader, datagramHeader+len(request))
		binary.BigEndian.PutUint16(header, l.first+uint16(i))
		binary.BigEndian.PutUint16(header[4:], 1) // one datagram
		l.missing, l.message = append(l.missing, answers(i)), append(l.message, append(header, request...))
		l.open += answers(i)
	}
}

// attempt sends the unanswered requests and waits for answers until the patience ends.
func (l *datagramLink) attempt(got answered) error {
	if err := l.send(); err != nil {
		return err
	}
	return l.receive(time.Now().Add(datagramPatience), got)
}

// send sends the requests that lack answers.
func (l *datagramLink) send() error {
	if len(l.message) == 1 {
		return transient(l.conn.Write(l.message[0]))
	}
	l.out = l.out[:0]
	for i, message := range l.message {
		if l.missing[i] > 0 {
			l.out = append(l.out, ipv4.Message{Buffers: [][]byte{message}})
		}
	}
	for rest := l.out; len(rest) > 0; {
		n, err := l.packets.WriteBatch(rest, 0)
		if err != nil {
			return transient(n, err)
		}
		rest = rest[n:]
	}
	return nil
}

// transient drops errors that another attempt may avoid: a request that is not sent counts as lost.
func transient(_ int, err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// receive takes answers until none is missing or the time until has come.
func (l *datagramLink) receive(until time.Time, got answered) error {
	alone := l.open == 1 // a plain read is cheaper for one answer
	if err := l.conn.SetReadDeadline(until); err != nil {
		return err
	}
	for l.open > 0 {
		n := 1
		var err error
		if alone {
			l.in[0].N, err = l.conn.Read(l.in[0].Buffers[0])
		} else {
			n, err = l.packets.ReadBatch(l.in[:min(l.open, len(l.in))], 0)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			continue // an error of an earlier datagram, such as one to a server that was not up yet
		}
		for i := range l.in[:n] {
			l.take(l.in[i].Buffers[0][:l.in[i].N], got)
		}
	}
	return nil
}

// take handles one datagram. It ignores empty ones: memcached 1.6 sends them for keys without a
// value in a multi-get.
func (l *datagramLink) take(datagram []byte, got answered) {
	if len(datagram) <= datagramHeader {
		return
	}
	i := int(binary.BigEndian.Uint16(datagram) - l.first)
	if i >= len(l.missing) || l.missing[i] == 0 {
		return
	}
	answers := min(got(i, datagram[datagramHeader:]), l.missing[i])
	l.missing[i] -= answers
	l.open -= answers
}
