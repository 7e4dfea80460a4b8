package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/wire"
)

// LatencyOptions configure a measurement of single requests.
type LatencyOptions struct {
	NodeOptions
	Nodes    int // length of the chain
	Count    int // of reads, of writes and of echoes
	Progress Progress
}

// LatencyResult is the time from sending a request until its answer is read, in microseconds.
type LatencyResult struct {
	Subject
	ReadP50us  float64 `json:"read_p50_us"`
	ReadP99us  float64 `json:"read_p99_us"`
	WriteP50us float64 `json:"write_p50_us"`
	WriteP99us float64 `json:"write_p99_us"`
	EchoP50us  float64 `json:"echo_p50_us"`
	EchoP99us  float64 `json:"echo_p99_us"`
	Count      int     `json:"count"`
	Nodes      int     `json:"nodes"`
	ValueBytes int     `json:"value_bytes"`
	Host       Host    `json:"machine"`
}

// The kinds of request. A benchmark sends one of each in rotation.
const (
	aRead = iota
	aWrite
	anEcho
	kinds
)

var kindNames = [kinds]string{"read", "write", "socket echo"}

// Latency measures one outstanding request at a time through a socket: reads at the head of a
// chain, writes to the head, and an echo by a socket over a link of the same kind without XDP
// programs.
func Latency(ctx context.Context, o LatencyOptions) (*LatencyResult, error) {
	if o.Count < 1 {
		return nil, wrongOption("--count: at least 1, not %d", o.Count)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	m, err := newMesh(o.Nodes, &o.NodeOptions)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	if err := m.openToSockets(); err != nil {
		return nil, err
	}
	echo, err := m.echo(o.ValueBytes)
	if err != nil {
		return nil, err
	}
	r := &LatencyResult{
		Count: o.Count, Nodes: o.Nodes, ValueBytes: o.ValueBytes, Subject: m.nodes[0].subject(), Host: ThisHost(),
	}
	err = m.gen.do(func() error {
		c, err := newCaller(m.ways[0].dest, echo, o.ValueBytes)
		if err != nil {
			return err
		}
		defer c.close()
		times, err := c.interleave(ctx, o.Count, o.Progress)
		if err != nil {
			return err
		}
		r.fill(times)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// echo starts an echo server in the head's host on its own link and returns its address. Its
// answers have the length of a read's answer.
func (m *mesh) echo(valueBytes int) (netip.AddrPort, error) {
	head := m.nodes[0].host
	near, far, err := connect(m.gen, "to-echo", linkAddr(0, 1), head, "echo", linkAddr(0, 2))
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr := netip.AddrPortFrom(far.addr, echoPort)
	server, err := newEchoServer(head, addr, wire.VersionBytes+valueBytes)
	if err != nil {
		return addr, err
	}
	m.undo.add(server.close)
	return addr, near.awaitUp()
}

func (r *LatencyResult) fill(times [kinds][]float64) {
	for kind := range times {
		slices.Sort(times[kind])
	}
	r.ReadP50us, r.ReadP99us = statistics.Quantile(0.5, times[aRead]), statistics.Quantile(0.99, times[aRead])
	r.WriteP50us, r.WriteP99us = statistics.Quantile(0.5, times[aWrite]), statistics.Quantile(0.99, times[aWrite])
	r.EchoP50us, r.EchoP99us = statistics.Quantile(0.5, times[anEcho]), statistics.Quantile(0.99, times[anEcho])
}

// caller is a client with one socket and one outstanding request. It uses the same blocking system
// calls for all kinds.
type caller struct {
	fd         int
	node, echo unix.Sockaddr
	key        wire.Key
	value      []byte
	session    uint64
	seq        uint64
	request    uint64
	out, in    []byte
}

func newCaller(node, echo netip.AddrPort, valueBytes int) (*caller, error) {
	c := &caller{
		node: socketAddress(node), echo: socketAddress(echo),
		key: randomKeys(1)[0], session: rand.Uint64() | 1, in: make([]byte, wire.MaxMessageBytes),
	}
	c.value = valueOf(c.key, valueBytes)
	var err error
	if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	patience := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func socketAddress(a netip.AddrPort) unix.Sockaddr {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

func (c *caller) close() { unix.Close(c.fd) }

// interleave makes count requests of each kind, in rotation, and returns their times in
// microseconds.
func (c *caller) interleave(ctx context.Context, count int, progress Progress) ([kinds][]float64, error) {
	const warmUp = 100
	var times [kinds][]float64
	for i := range count + warmUp {
		if err := ctx.Err(); err != nil {
			return times, err
		}
		if i%1000 == 0 {
			progress.say("%d of %d", i, count)
		}
		for _, kind := range []int{aWrite, anEcho, aRead} {
			d, err := c.call(kind)
			if err != nil {
				return times, err
			}
			if i >= warmUp {
				times[kind] = append(times[kind], float64(d.Nanoseconds())/1e3)
			}
		}
	}
	return times, nil
}

// call sends one request and waits for its answer. It checks the answer after it stops the clock.
func (c *caller) call(kind int) (time.Duration, error) {
	c.request++
	m := wire.Message{Op: wire.OpRead, Epoch: epoch, Request: c.request, Key: c.key}
	to := c.node
	switch kind {
	case aWrite:
		c.seq++
		m.Op, m.Session, m.Seq, m.Value = wire.OpPut, c.session, c.seq, c.value
	case anEcho:
		to = c.echo
	}
	c.out = m.Append(c.out[:0])
	start := time.Now()
	if err := eintr.Retry(func() error { return unix.Sendto(c.fd, c.out, 0, to) }); err != nil {
		return 0, fmt.Errorf("send a request: %w", err)
	}
	n, err := eintr.Value(func() (int, error) {
		n, _, err := unix.Recvfrom(c.fd, c.in, 0)
		return n, err
	})
	d := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: no answer within a second: %w", kindNames[kind], err)
	}
	if kind == anEcho {
		return d, nil
	}
	return d, c.check(c.in[:n], kind)
}

func (c *caller) check(b []byte, kind int) error {
	var m wire.Message
	if err := wire.DecodeReply(b, &m); err != nil {
		return err
	}
	right := m.Request == c.request && m.Key == c.key && m.Status() == wire.StatusOk && m.Version == c.seq
	if !right || (kind == aRead && string(m.Value) != string(c.value)) {
		return fmt.Errorf("request %d of version %d got a wrong answer: %+v", c.request, c.seq, m)
	}
	return nil
}

// Table returns one row per kind of request.
func (r *LatencyResult) Table() ([]string, [][]string) {
	row := func(name string, p50, p99 float64) []string {
		return []string{name, fmt.Sprintf("%.1f", p50), fmt.Sprintf("%.1f", p99)}
	}
	return []string{"request", "p50 µs", "p99 µs"}, [][]string{
		row(kindNames[aRead], r.ReadP50us, r.ReadP99us),
		row(kindNames[aWrite], r.WriteP50us, r.WriteP99us),
		row(kindNames[anEcho], r.EchoP50us, r.EchoP99us),
	}
}

// Summary states the number of requests, their size and the chain.
func (r *LatencyResult) Summary() string {
	return fmt.Sprintf("%d of each, one request at a time through a socket, values of %d bytes; "+
		"plane %s, chain of %d, asked at its head.\n"+
		"The echo is another socket's, over a link without XDP.\n%v", r.Count, r.ValueBytes, r.describe(), r.Nodes, r.Host)
}
