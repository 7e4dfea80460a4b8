package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"os/exec"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

//go:embed memcached.o
var memcachedObject []byte

// MemcachedOptions configure a measurement of a memcached server's reads over UDP.
type MemcachedOptions struct {
	Windows
	Keys       int
	ValueBytes int
	// Server returns the command line of a server that listens on a UDP address and on no other.
	Server   func(netip.AddrPort) []string
	Progress Progress
}

// MemcachedResult is the result of Memcached.
type MemcachedResult struct {
	ReadsPerS float64 `json:"reads_per_s"`
	Sent      uint64  `json:"sent"`
	Lost      uint64  `json:"lost"`
	Wrong     uint64  `json:"wrong"`
	Window    int     `json:"window"` // limit of outstanding requests; 0: no limit
}

// Sizes of memcached's protocol over UDP: see eval/bpf/load/memcached.bpf.c.
const (
	memcachedHeaderBytes = 8
	// memcachedUDPChecksum is the checksum's offset in a frame. It is 0, as UDP over IPv4 allows, because the generator
	// changes the bytes that it covers.
	memcachedUDPChecksum = 40
	memcachedDatagram    = 1400
	memcachedWait        = 20 * time.Second // until the server answers
	memcachedRetry       = 100 * time.Millisecond
)

// Memcached measures reads of a memcached server with the same generator and rules as a node's
// reads. The kernel makes the requests and checks every answer, so no client on sockets is part of
// the measurement.
func Memcached(ctx context.Context, o MemcachedOptions) (*MemcachedResult, error) {
	size := NodeOptions{Keys: o.Keys, ValueBytes: o.ValueBytes}
	if err := validate(&size, &o.Windows); err != nil {
		return nil, err
	}
	s := new(memcachedStage)
	defer s.undo.run()
	if err := s.build(); err != nil {
		return nil, err
	}
	if err := s.serve(o.Server(s.way.dest)); err != nil {
		return nil, err
	}
	keys := memcachedKeys(o.Keys)
	o.Progress.say("writing %d keys of %d bytes to memcached", o.Keys, o.ValueBytes)
	if err := s.fill(ctx, keys, o.ValueBytes); err != nil {
		return nil, err
	}
	if _, err := EnlargeQueues(s.pid); err != nil {
		return nil, err
	}
	l, err := newMemcachedLoad(shuffled(keys), o.ValueBytes, s.way)
	if err != nil {
		return nil, err
	}
	s.undo.add(l.close)
	runners := []contestant{{name: "memcached", load: l}}
	o.Progress.say("looking for the highest rate of memcached")
	if err := runners[0].prepare(ctx); err != nil {
		return nil, err
	}
	rates, err := o.take(ctx, runners, o.Progress)
	if err != nil {
		return nil, err
	}
	total := &runners[0].total
	return &MemcachedResult{
		ReadsPerS: statistics.Median(rates[0]), Sent: total.Sent, Lost: total.Lost(), Wrong: total.Wrong,
		Window: runners[0].pace.window,
	}, nil
}

// memcachedKeys returns keys that read as 16 characters in a request.
func memcachedKeys(n int) []wire.Key {
	keys := make([]wire.Key, n)
	for i := range keys {
		text := fmt.Appendf(nil, "key-%012d", i)
		keys[i] = wire.Key{Hi: binary.BigEndian.Uint64(text), Lo: binary.BigEndian.Uint64(text[8:])}
	}
	return keys
}

// memcachedText returns a key's text in a request.
func memcachedText(k wire.Key) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k.Hi), k.Lo)
}

// memcachedStage joins a generator's host and a server's host by a link.
type memcachedStage struct {
	gen, server *host
	way         way
	pid         int // process id of the server
	undo        undo
}

func (s *memcachedStage) build() error {
	for _, h := range []**host{&s.gen, &s.server} {
		var err error
		if *h, err = newHost(); err != nil {
			return err
		}
		s.undo.add((*h).close)
	}
	near, far, err := connect(s.gen, "to-server", linkAddr(0, 1), s.server, "server", linkAddr(0, 2))
	if err != nil {
		return err
	}
	s.way = way{from: near, to: far, dest: netip.AddrPortFrom(far.addr, memcachedPort)}
	return errors.Join(near.awaitUp(), far.awaitUp())
}

// memcachedPort is memcached's default port.
const memcachedPort = 11211

// serve starts the server on a thread that waits for it. The kernel kills the server when that
// thread ends.
func (s *memcachedStage) serve(argv []string) error {
	command := exec.Command(argv[0], argv[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.server.do(func() error {
			err := command.Start()
			started <- err
			if err == nil {
				_ = command.Wait() // reports the kill
			}
			return nil
		})
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	s.pid = command.Process.Pid
	s.undo.add(func() {
		_ = command.Process.Kill() // fails only if it has ended
		<-ended
	})
	return nil
}

// fill stores the keys one after the other.
func (s *memcachedStage) fill(ctx context.Context, keys []wire.Key, valueBytes int) error {
	var conn net.Conn
	err := s.gen.do(func() (err error) {
		conn, err = net.Dial("udp4", s.way.dest.String())
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	until := time.Now().Add(memcachedWait)
	in := make([]byte, memcachedDatagram)
	for i := 0; i < len(keys); {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := conn.Write(memcachedSet(uint16(i), keys[i], valueOf(keys[i], valueBytes))); err != nil &&
			time.Now().After(until) {
			return fmt.Errorf("store a key in memcached: %w", err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(memcachedRetry)); err != nil {
			return err
		}
		n, err := conn.Read(in)
		if err == nil && n > memcachedHeaderBytes && bytes.HasPrefix(in[memcachedHeaderBytes:n], []byte("STORED")) {
			i++
			continue
		}
		if time.Now().After(until) {
			return fmt.Errorf("memcached did not store key %d of %d: %q, %w", i, len(keys), in[:n], err)
		}
	}
	return nil
}

// memcachedRequest returns the datagram of a request.
func memcachedRequest(number uint16, text []byte) []byte {
	return append([]byte{byte(number >> 8), byte(number), 0, 0, 0, 1, 0, 0}, text...)
}

func memcachedSet(number uint16, key wire.Key, value []byte) []byte {
	return memcachedRequest(number, fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", memcachedText(key), len(value), value))
}

// newMemcachedLoad loads the generator.
func newMemcachedLoad(keys []wire.Key, valueBytes int, w way) (*load, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(memcachedObject))
	if err != nil {
		return nil, fmt.Errorf("read the generator's object: %w", err)
	}
	first := memcachedText(keys[0])
	get := w.frame(w.dest, memcachedRequest(0, fmt.Appendf(nil, "get %s\r\n", first)))
	get[memcachedUDPChecksum], get[memcachedUDPChecksum+1] = 0, 0
	headers := len(get) - len("get ") - len(first) - len("\r\n")
	line := fmt.Sprintf("VALUE %s 0 %d\r\n", first, valueBytes)
	l := &load{frame: make([]byte, len(get)+1), from: w.from}
	constants := map[string]any{
		"templates":    [2][templateWords]uint64{template(get)},
		"value_bytes":  uint32(valueBytes),
		"given_bytes":  uint32(len(l.frame)),
		"key_count":    uint32(len(keys)),
		"client_port":  bits.ReverseBytes16(generatorPort),
		"value_at":     uint32(headers + len(line)),
		"answer_bytes": uint32(headers + len(line) + valueBytes + len("\r\nEND\r\n")),
	}
	if err := set(spec, constants); err != nil {
		return nil, err
	}
	spec.Maps["keys"].MaxEntries = uint32(len(keys))
	if l.collection, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("load the generator: %w", err)
	}
	if err := errors.Join(l.fillKeys(&request{keys: keys}), l.attachAll([]*port{w.from})); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}
