package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// PodOptions configure a measurement of a pod's requests.
type PodOptions struct {
	Count      int // of reads and of round trips
	ValueBytes int
	Agent      func(AgentOptions) []string
	Ready      string   // log text of an agent that is up
	Plugin     []string // command line of netcraq-cni
	Etcd       StartEtcd
	Progress   Progress
}

// StartEtcd starts an etcd at an address in a network namespace, with a client in another one, and returns the
// client's read of a value. nil: etcd is not measured.
type StartEtcd func(ctx context.Context, addr netip.Addr, server, client string, value []byte) (
	read func(context.Context) error, stop func() error, err error)

// PodResult is the time of a pod's requests, in microseconds.
type PodResult struct {
	ReadUs     float64  `json:"pod_read_us"` // median
	ReadP99us  float64  `json:"pod_read_p99_us"`
	TCPUs      float64  `json:"tcp_us"` // median
	TCPP99us   float64  `json:"tcp_p99_us"`
	FarUDPUs   float64  `json:"other_machine_udp_us"` // median
	FarUDPP99  float64  `json:"other_machine_udp_p99_us"`
	FarTCPUs   float64  `json:"other_machine_tcp_us"` // median
	FarTCPP99  float64  `json:"other_machine_tcp_p99_us"`
	EtcdUs     *float64 `json:"etcd_us"` // median; nil without etcd
	EtcdP99us  *float64 `json:"etcd_p99_us"`
	AnsweredAt string   `json:"answered_at"`
	LeftHost   uint64   `json:"left_host"` // packets on the machine's link meanwhile
	Late       int      `json:"late"`      // reads and datagrams that were sent again after a second
	Count      int      `json:"count"`
	ValueBytes int      `json:"value_bytes"`
	Host       Host     `json:"machine"`
}

// Pod measures one outstanding request at a time of a pod: a clean read at the address that netcraq-cni gives it, and
// messages of the same length and back: to another pod of the bridge by TCP, and to a pod of another machine by UDP and
// TCP. The agent and the plugin are processes.
func Pod(ctx context.Context, o PodOptions) (*PodResult, error) {
	if o.Count < 1 {
		return nil, wrongOption("--count: at least 1, not %d", o.Count)
	}
	if err := (&NodeOptions{Keys: 1, ValueBytes: o.ValueBytes}).validate(); err != nil {
		return nil, err
	}
	m, hosts, err := newLinkedHosts(1)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	p, err := newPodMachine(ctx, m, hosts[0], &o)
	if err != nil {
		return nil, err
	}
	written, err := p.write(o.ValueBytes)
	if err != nil {
		return nil, err
	}
	if err := p.plug(ctx, o.Plugin); err != nil {
		return nil, err
	}
	r, err := p.measure(ctx, written, &o)
	if err != nil || o.Etcd == nil {
		return r, err
	}
	return r, p.measureEtcd(ctx, written.value, &o, r)
}

// measureEtcd makes reads of an etcd in the other pod, after the rest: a Go client's goroutines may run on any thread.
func (p *podMachine) measureEtcd(ctx context.Context, value []byte, o *PodOptions, r *PodResult) (err error) {
	o.Progress.say("reads of etcd")
	read, stop, err := o.Etcd(ctx, podAddr(neighbour), namespaceOf(p.pods[neighbour]), namespaceOf(p.pods[0]), value)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	var times []float64
	for i := range o.Count + warmUp {
		start := time.Now()
		if err := read(ctx); err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		if i >= warmUp {
			times = append(times, micros(time.Since(start)))
		}
	}
	slices.Sort(times)
	p50, p99 := statistics.Quantile(0.5, times), statistics.Quantile(0.99, times)
	r.EtcdUs, r.EtcdP99us = &p50, &p99
	return nil
}

// warmUp is the number of requests of each kind before those that count.
const warmUp = 100

// tries bounds how often a request is sent again. A frame that the kernel leaves in the ring of a veth pair is late,
// not lost: see drainLate. Such a request is made again with another socket.
const tries = 60

// again reports whether a request got no answer in time.
func again(err error) bool { return errors.Is(err, unix.EAGAIN) }

// write writes a key from another machine, and returns the client that did.
func (p *podMachine) write(valueBytes int) (c *caller, err error) {
	if err := p.mesh.openToSockets(); err != nil {
		return nil, err
	}
	dest := p.mesh.ways[0].dest
	err = p.mesh.gen.do(func() error {
		for i := 0; i == 0 || again(err) && i < tries; i++ {
			if c, err = newCaller(dest, dest, valueBytes); err != nil {
				return err
			}
			_, err = c.call(aWrite)
			c.close()
		}
		return err
	})
	return c, err
}

// Kinds of a pod's requests.
const (
	podRead = iota
	podTCP
	podFarUDP
	podFarTCP
	podKinds
)

// measure makes reads and round trips in rotation.
func (p *podMachine) measure(ctx context.Context, written *caller, o *PodOptions) (*PodResult, error) {
	r := &PodResult{AnsweredAt: p.answeredAt, Count: o.Count, ValueBytes: o.ValueBytes, Host: ThisHost()}
	near, err := p.startEcho(neighbour)
	if err != nil {
		return nil, err
	}
	far, err := p.startEcho(farPod)
	if err != nil {
		return nil, err
	}
	datagrams, err := newEchoServer(p.pods[farPod], far, wire.VersionBytes+o.ValueBytes)
	if err != nil {
		return nil, err
	}
	p.mesh.undo.add(datagrams.close)
	before, err := p.mesh.ways[0].from.received()
	if err != nil {
		return nil, err
	}
	var times [podKinds][]float64
	err = p.pods[0].do(func() (err error) {
		times, err = p.rotate(ctx, written, near, far, o, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := p.mesh.ways[0].from.received()
	if err != nil {
		return nil, err
	}
	r.LeftHost = after - before
	r.fill(times)
	return r, nil
}

// rotate makes one request of each kind after the other, from the first pod.
func (p *podMachine) rotate(ctx context.Context, written *caller, near, far netip.AddrPort, o *PodOptions,
	r *PodResult) (times [podKinds][]float64, err error) {
	stream, err := dialStream(near)
	if err != nil {
		return times, err
	}
	defer unix.Close(stream)
	farStream, err := dialStream(far)
	if err != nil {
		return times, err
	}
	defer unix.Close(farStream)
	message := make([]byte, wire.VersionBytes+o.ValueBytes)
	requests := [podKinds]func() (time.Duration, error){
		podRead:   func() (time.Duration, error) { return p.read(ctx, written, r) },
		podTCP:    func() (time.Duration, error) { return roundTrip(stream, message) },
		podFarUDP: func() (time.Duration, error) { return p.datagram(ctx, far, r) },
		podFarTCP: func() (time.Duration, error) { return roundTrip(farStream, message) },
	}
	for i := range o.Count + warmUp {
		if i%1000 == 0 {
			o.Progress.say("%d of %d", i, o.Count)
		}
		for kind, request := range requests {
			d, err := request()
			if err != nil {
				return times, err
			}
			if i >= warmUp {
				times[kind] = append(times[kind], micros(d))
			}
		}
	}
	return times, nil
}

func (r *PodResult) fill(times [podKinds][]float64) {
	for kind, into := range [podKinds][2]*float64{podRead: {&r.ReadUs, &r.ReadP99us}, podTCP: {&r.TCPUs, &r.TCPP99us},
		podFarUDP: {&r.FarUDPUs, &r.FarUDPP99}, podFarTCP: {&r.FarTCPUs, &r.FarTCPP99}} {
		slices.Sort(times[kind])
		*into[0], *into[1] = statistics.Quantile(0.5, times[kind]), statistics.Quantile(0.99, times[kind])
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// read reads the key at the pods' address.
func (p *podMachine) read(ctx context.Context, written *caller, r *PodResult) (time.Duration, error) {
	to := netip.AddrPortFrom(podsAddress, wire.Port)
	return p.ask(ctx, &p.reader, to, aRead, r, func(c *caller) {
		c.key, c.value, c.seq = written.key, written.value, written.seq
	})
}

// datagram sends a message as long as a read's to an echo server.
func (p *podMachine) datagram(ctx context.Context, to netip.AddrPort, r *PodResult) (time.Duration, error) {
	return p.ask(ctx, &p.sender, to, anEcho, r, func(*caller) {})
}

// ask makes a request, with another socket after one that was late.
func (p *podMachine) ask(ctx context.Context, from **caller, to netip.AddrPort, kind int, r *PodResult,
	prepare func(*caller)) (time.Duration, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if *from == nil {
			c, err := newCaller(to, to, 0)
			if err != nil {
				return 0, err
			}
			prepare(c)
			*from = c
		}
		d, err := (*from).call(kind)
		if !again(err) || r.Late == tries {
			return d, err
		}
		r.Late++
		(*from).close()
		*from = nil
	}
}

// Table returns one row per kind of request.
func (r *PodResult) Table() ([]string, [][]string) {
	row := func(name string, p50, p99 float64) []string {
		return []string{name, fmt.Sprintf("%.1f", p50), fmt.Sprintf("%.1f", p99)}
	}
	rows := [][]string{row("clean read", r.ReadUs, r.ReadP99us), row("TCP to another pod", r.TCPUs, r.TCPP99us),
		row("UDP to a pod of another machine", r.FarUDPUs, r.FarUDPP99),
		row("TCP to a pod of another machine", r.FarTCPUs, r.FarTCPP99)}
	if r.EtcdUs != nil {
		rows = append(rows, row("read of etcd in another pod", *r.EtcdUs, *r.EtcdP99us))
	}
	return []string{"request of a pod", "p50 µs", "p99 µs"}, rows
}

// Summary states where reads were answered.
func (r *PodResult) Summary() string {
	return fmt.Sprintf("%d of each, one at a time, values of %d bytes. Reads were answered at: %s. %d packets left the "+
		"machine meanwhile, %d requests were late.\n%v", r.Count, r.ValueBytes, r.AnsweredAt, r.LeftHost, r.Late, r.Host)
}
