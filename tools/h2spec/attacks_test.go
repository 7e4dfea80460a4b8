package h2spec

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxGatewayMiB is what a gateway's process takes at most during the attacks: docs/verification.md#attacks.
const maxGatewayMiB = 1600

// Methods of etcd.
const (
	methodRange = "/etcdserverpb.KV/Range"
	methodPut   = "/etcdserverpb.KV/Put"
)

// attack does harm through a port until ctx ends.
type attack struct {
	name string
	run  func(ctx context.Context, port string)
}

var attacks = []attack{
	{"none", func(ctx context.Context, _ string) { <-ctx.Done() }},
	{"idle connections", idleConnections},
	{"unread answers", unreadAnswers},
	{"half-sent requests", halfSent},
	{"calls that are reset", rapidReset},
	{"writes of 100 kB", bigWrites},
}

// TestAttacks attacks an etcd and a gateway in turn, and prints what their processes take and what another client sees.
// ATTACK_SECONDS is how long each attack lasts (3), and SOAK how long the gateway is attacked in turn (once).
func TestAttacks(t *testing.T) {
	seconds, err := strconv.Atoi(cmpOr(os.Getenv("ATTACK_SECONDS"), "3"))
	if err != nil {
		t.Fatal(err)
	}
	soak, err := time.ParseDuration(cmpOr(os.Getenv("SOAK"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	for begun, round := time.Now(), 0; round == 0 || time.Since(begun) < soak; round++ {
		for _, server := range []string{"etcd", "gateway"} {
			if round > 0 && server == "etcd" {
				continue
			}
			attackAll(t, server, time.Duration(seconds)*time.Second)
		}
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// attackAll makes every attack on a new etcd, or on a new gateway in front of one.
func attackAll(t *testing.T, server string, lasts time.Duration) {
	for _, a := range attacks {
		etcd, gateway := freePort(t), freePort(t)
		url := "http://127.0.0.1:" + etcd
		process := start(t, etcd, ".tools/etcd", "--data-dir", t.TempDir(), "--listen-client-urls", url,
			"--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:"+freePort(t), "--log-level", "fatal",
			"--unsafe-no-fsync")
		port := etcd
		if server == "gateway" {
			process = start(t, gateway, "bin/netcraq", "gateway", "--etcd-endpoints", url, "--listen", "127.0.0.1:"+gateway,
				"--max-connections", "500")
			port = gateway
		}
		other := newClient(port)
		for key, size := range map[string]int{"big": 1 << 20, "small": 100} {
			if _, err := other.call(t.Context(), methodPut, message([]byte(key), make([]byte, size))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		ended := make(chan struct{})
		go func() { a.run(ctx, port); close(ended) }()
		seen := other.use(ctx)
		cancel()
		<-ended
		peak := peakMiB(t, process)
		late := newClient(port)
		after, stop := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := late.call(after, methodRange, message([]byte("small"), nil))
		stop()
		t.Logf("%-8s %-22s %5d MiB, another client: %v; a new one afterwards: %v", server, a.name, peak, seen, errText(err))
		if server == "gateway" {
			if peak > maxGatewayMiB {
				t.Errorf("%s: the gateway takes %d MiB, more than %d", a.name, peak, maxGatewayMiB)
			}
			if err != nil || seen.failed*2 > seen.small+seen.large {
				t.Errorf("%s: another client: %v, afterwards %v", a.name, seen, err)
			}
		}
		end(process)
	}
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// peakMiB is the most memory that a process had.
func peakMiB(t *testing.T, p *os.Process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatal("the process has no VmHWM")
	return 0
}

// message is a message of etcd whose field 1 is a key and whose field 2 is a value.
func message(key, value []byte) []byte {
	b := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(key))), key...)
	if value != nil {
		b = append(binary.AppendUvarint(append(b, 0x12), uint64(len(value))), value...)
	}
	return b
}

func framed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// client is a client of gRPC.
type client struct {
	http http.Client
	url  string
}

func newClient(port string) *client {
	return &client{http.Client{Transport: &http2.Transport{
		AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}, "http://127.0.0.1:" + port}
}

func (c *client) call(ctx context.Context, method string, m []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+method, bytes.NewReader(framed(m)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if code := answer.Trailer.Get("Grpc-Status"); err == nil && code != "0" {
		err = errors.New("status " + code + answer.Header.Get("Grpc-Status"))
	}
	return body, err
}

// seen is what a client saw.
type seen struct {
	small, large, failed int
	median, most         time.Duration
}

func (s seen) String() string {
	return fmt.Sprintf("%d small and %d large requests, %d failed, median %v, most %v", s.small, s.large, s.failed,
		s.median.Round(10*time.Microsecond), s.most.Round(time.Millisecond))
}

// use reads a small value and writes one of 100 kB in turn until ctx ends.
func (c *client) use(ctx context.Context) (s seen) {
	var times []time.Duration
	large := message([]byte("large"), make([]byte, 100_000))
	for i := 0; ctx.Err() == nil; i++ {
		begun := time.Now()
		var err error
		if i%2 == 0 {
			_, err = c.call(context.Background(), methodRange, message([]byte("small"), nil))
			s.small++
		} else {
			_, err = c.call(context.Background(), methodPut, large)
			s.large++
		}
		if err != nil {
			s.failed++
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	s.median, s.most = times[len(times)/2], times[len(times)-1]
	return s
}

// raw is a client that makes frames itself.
type raw struct {
	net.Conn
	*http2.Framer
	block bytes.Buffer
	hpack *hpack.Encoder
}

func connect(ctx context.Context, port string, settings ...http2.Setting) (*raw, error) {
	n, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { n.Close() })
	c := &raw{Conn: n, Framer: http2.NewFramer(n, n)}
	c.hpack = hpack.NewEncoder(&c.block)
	_, err = io.WriteString(n, http2.ClientPreface)
	return c, errors.Join(err, c.WriteSettings(settings...))
}

func (c *raw) open(id uint32, method string) error {
	c.block.Reset()
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "a"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = c.hpack.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes everything
	}
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true})
}

// idleConnections keeps 1,500 connections open that send nothing, and opens those again that end.
func idleConnections(ctx context.Context, port string) {
	for range 1500 {
		go func() {
			for ctx.Err() == nil {
				n, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
				if err != nil {
					return
				}
				stop := context.AfterFunc(ctx, func() { n.Close() })
				_, _ = n.Read(make([]byte, 1)) // until it ends
				stop()
				n.Close()
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
	}
	<-ctx.Done()
}

// unreadAnswers asks 6,000 times for 1 MiB on one connection and reads nothing.
func unreadAnswers(ctx context.Context, port string) {
	c, err := connect(ctx, port, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := uint32(0); err == nil && i < 6000; i++ {
		err = errors.Join(c.open(2*i+1, methodRange), c.WriteData(2*i+1, true, framed(message([]byte("big"), nil))))
	}
	<-ctx.Done()
}

// halfSent announces requests of 1 MiB on 24 connections, each many times, and sends 16 KiB of each.
func halfSent(ctx context.Context, port string) {
	begin := append(binary.BigEndian.AppendUint32([]byte{0}, 1<<20), make([]byte, 16<<10-5)...)
	for range 24 {
		c, err := connect(ctx, port)
		for i := uint32(0); err == nil && i < 3; i++ { // as much as the window of etcd takes
			err = errors.Join(c.open(2*i+1, methodPut), c.WriteData(2*i+1, false, begin))
		}
	}
	<-ctx.Done()
}

// rapidReset makes calls and resets them.
func rapidReset(ctx context.Context, port string) {
	c, err := connect(ctx, port)
	go io.Copy(io.Discard, c)
	for i := uint32(0); err == nil && ctx.Err() == nil && i < 1<<29; i++ {
		err = errors.Join(c.open(2*i+1, methodRange), c.WriteRSTStream(2*i+1, http2.ErrCodeCancel))
	}
	<-ctx.Done()
}

// bigWrites writes 100 kB to one key, on 8 connections.
func bigWrites(ctx context.Context, port string) {
	for range 8 {
		go newClient(port).use(ctx)
	}
	<-ctx.Done()
}
