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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxGatewayMiB is what a gateway's process takes at most during the attacks: docs/verification.md#attacks.
const maxGatewayMiB = 1200

// memoryQuota is the quota of the memory keyspace.
const memoryQuota = 256 << 20

// Methods of etcd.
const (
	methodRange = "/etcdserverpb.KV/Range"
	methodPut   = "/etcdserverpb.KV/Put"
	methodTxn   = "/etcdserverpb.KV/Txn"
	methodWatch = "/etcdserverpb.Watch/Watch"
)

// attack does harm through a port until ctx ends.
type attack struct {
	name string
	run  func(ctx context.Context, port string)
	// crowds says that the limit of connections is exceeded all the time: those of other clients may end between two calls.
	crowds bool
}

var attacks = []attack{
	{name: "none", run: func(ctx context.Context, _ string) { <-ctx.Done() }},
	{name: "idle connections", run: idleConnections, crowds: true},
	{name: "unread answers", run: unreadAnswers},
	{name: "half-sent requests", run: halfSent},
	{name: "calls that are reset", run: rapidReset},
	{name: "writes of 100 kB", run: bigWrites},
	{name: "unread watches", run: unreadWatches},
	{name: "writes that read much", run: readingWrites},
}

// TestAttacks makes every attack on a new etcd, a new gateway in front of one, and a new gateway of a memory keyspace. It
// prints what their processes take and what another client sees. ATTACK_SECONDS is how long each attack lasts (3).
func TestAttacks(t *testing.T) {
	for _, server := range []string{"etcd", "gateway", "memory"} {
		for _, a := range attacks {
			v := startVictim(t, server)
			saw := v.suffer(t, a)
			peak := peakMiB(t, v.process)
			t.Logf("%-8s %-22s %5d MiB, another client: %v", server, a.name, peak, saw)
			if server != "etcd" && (peak > maxGatewayMiB || saw.bad(a)) {
				t.Errorf("%s, %s: %d MiB (at most %d), another client: %v", server, a.name, peak, maxGatewayMiB, saw)
			}
			v.end()
		}
	}
}

// TestSoak makes all attacks in turn on one gateway in front of an etcd and on one gateway of a memory keyspace, for SOAK.
// Both processes live all the time.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(cmpOr(os.Getenv("SOAK"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	if lasts == 0 {
		t.Skip("SOAK is not set")
	}
	for _, server := range []string{"gateway", "memory"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			soak(t, startVictim(t, server), lasts)
		})
	}
}

// soak attacks a gateway in turn, in whole rounds.
func soak(t *testing.T, v *victim, lasts time.Duration) {
	saw, highest := make([]seen, len(attacks)), make([]int, len(attacks))
	rounds, first, last := 0, 0, 0 // peaks of a round
	for begun := time.Now(); rounds == 0 || time.Since(begun) < lasts; rounds++ {
		last = 0
		for i, a := range attacks {
			resetPeak(t, v.process)
			saw[i].add(v.suffer(t, a))
			peak := peakMiB(t, v.process)
			highest[i], last = max(highest[i], peak), max(last, peak)
			if peak > maxGatewayMiB || saw[i].late != nil {
				t.Fatalf("round %d, %s: %d MiB (at most %d), another client: %v", rounds, a.name, peak, maxGatewayMiB, saw[i])
			}
		}
		if rounds == 0 {
			first = last
		}
		t.Logf("round %d: %d MiB", rounds, last)
	}
	for i, a := range attacks {
		t.Logf("%-22s %5d MiB, another client: %v", a.name, highest[i], saw[i])
		if saw[i].bad(a) {
			t.Errorf("%s: another client: %v", a.name, saw[i])
		}
	}
	t.Logf("%d rounds on one process, %v for each attack: highest %d MiB (first round %d, last %d), at most %d", rounds,
		attackLasts(t), slices.Max(highest), first, last, maxGatewayMiB)
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// attackLasts returns how long an attack lasts.
func attackLasts(t *testing.T) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(cmpOr(os.Getenv("ATTACK_SECONDS"), "3"))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

// victim is a server that is attacked.
type victim struct {
	process *os.Process
	port    string
	below   *os.Process // the etcd or the node below a gateway
}

func startVictim(t *testing.T, server string) *victim {
	t.Helper()
	v := &victim{port: freePort(t)}
	if server == "memory" {
		cluster := filepath.Join(t.TempDir(), "cluster.yaml")
		text := fmt.Sprintf("epoch: 1\nshards: 1\nnodes: [{name: n1, addr: \"127.0.0.1:%s\", api: \"127.0.0.1:%s\"}]\nchains: [[n1]]\n",
			freePort(t), freePort(t))
		if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v.below = run(t, "bin/netcraq", "node", "--name", "n1", "--cluster", cluster, "--plane", "soft", "--priority", "fair")
		v.process = start(t, v.port, "bin/netcraq", "gateway", "--memory", "--cluster", cluster, "--listen", "127.0.0.1:"+v.port,
			"--quota-bytes", strconv.Itoa(memoryQuota), "--max-connections", "500")
	} else {
		etcd := v.port
		if server == "gateway" {
			etcd = freePort(t)
		}
		url := "http://127.0.0.1:" + etcd
		// Compactions and few entries in the log bound what the writes of a long run take at etcd.
		v.process = start(t, etcd, ".tools/etcd", "--data-dir", t.TempDir(), "--listen-client-urls", url,
			"--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:"+freePort(t), "--log-level", "fatal",
			"--unsafe-no-fsync", "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "10s",
			"--snapshot-count", "1000", "--snapshot-catchup-entries", "500", "--quota-backend-bytes", "8589934592")
		if server == "gateway" {
			v.below = v.process
			v.process = start(t, v.port, "bin/netcraq", "gateway", "--etcd-endpoints", url, "--listen", "127.0.0.1:"+v.port,
				"--max-connections", "500")
		}
	}
	v.fill(t)
	return v
}

// fill writes the values that the attacks read. A new memory keyspace takes writes when its gateway is active.
func (v *victim) fill(t *testing.T) {
	t.Helper()
	c := newClient(v.port)
	defer c.http.CloseIdleConnections()
	for key, size := range map[string]int{"big": 1 << 20, "small": 100} {
		put := message([]byte(key), make([]byte, size))
		for limit := time.Now().Add(time.Minute); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := c.call(ctx, methodPut, put)
			cancel()
			if err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
		}
	}
}

// suffer makes an attack and returns what another client saw.
func (v *victim) suffer(t *testing.T, a attack) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), attackLasts(t))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx, v.port)
	}()
	other := newClient(v.port)
	defer other.http.CloseIdleConnections()
	saw := other.use(ctx)
	<-ended
	after, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	late := newClient(v.port)
	defer late.http.CloseIdleConnections()
	_, saw.late = late.call(after, methodRange, message([]byte("small"), nil))
	return saw
}

func (v *victim) end() {
	end(v.process)
	if v.below != nil {
		end(v.below)
	}
}

// resetPeak makes the process's peak of memory what it has now.
func resetPeak(t *testing.T, p *os.Process) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
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
	b := appendField(nil, 1, key)
	if value != nil {
		b = appendField(b, 2, value)
	}
	return b
}

func appendField(b []byte, number byte, field []byte) []byte {
	return append(binary.AppendUvarint(append(b, number<<3|2), uint64(len(field))), field...)
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

// seen is what a client saw during attacks, and a new client after them.
type seen struct {
	small, large, failed int
	times                []time.Duration
	late                 error // the new client's
}

func (s *seen) add(more seen) {
	s.small, s.large, s.failed = s.small+more.small, s.large+more.large, s.failed+more.failed
	s.times, s.late = append(s.times, more.times...), more.late
}

// bad reports whether the new client's request failed, or half of the other client's requests, or all of them if the
// attack crowds.
func (s seen) bad(a attack) bool {
	all := s.small + s.large
	return s.late != nil || s.failed == all || !a.crowds && s.failed*2 > all
}

func (s seen) String() string {
	slices.Sort(s.times)
	late := "ok"
	if s.late != nil {
		late = s.late.Error()
	}
	return fmt.Sprintf("%d small and %d large requests, %d failed, median %v, most %v; a new one afterwards: %s", s.small,
		s.large, s.failed, s.times[len(s.times)/2].Round(10*time.Microsecond), s.times[len(s.times)-1].Round(time.Millisecond),
		late)
}

// use reads a small value and writes one of 100 kB in turn until ctx ends.
func (c *client) use(ctx context.Context) (s seen) {
	large := message([]byte("large"), make([]byte, 100_000))
	for i := 0; i == 0 || ctx.Err() == nil; i++ {
		begun := time.Now()
		call, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		var err error
		if i%2 == 0 {
			_, err = c.call(call, methodRange, message([]byte("small"), nil))
			s.small++
		} else {
			_, err = c.call(call, methodPut, large)
			s.large++
		}
		cancel()
		if err != nil {
			s.failed++
		}
		s.times = append(s.times, time.Since(begun))
	}
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
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := newClient(port)
			defer c.http.CloseIdleConnections()
			c.use(ctx)
		})
	}
	clients.Wait()
}

// unreadWatches watches what others write, 1,000 times on one connection, and reads nothing.
func unreadWatches(ctx context.Context, port string) {
	c, err := connect(ctx, port, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	create := framed(message(message([]byte("large"), nil), nil))
	for i := uint32(0); err == nil && i < 1000; i++ {
		err = errors.Join(c.open(2*i+1, methodWatch), c.WriteData(2*i+1, false, create))
	}
	<-ctx.Done()
}

// readingWrites makes transactions that write a key and read all keys 127 times, on 4 connections.
func readingWrites(ctx context.Context, port string) {
	txn := appendField(nil, 2, appendField(nil, 2, message([]byte("read"), nil)))
	for range 127 {
		txn = appendField(txn, 2, appendField(nil, 1, message([]byte{0}, []byte{0})))
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			c := newClient(port)
			defer c.http.CloseIdleConnections()
			for ctx.Err() == nil {
				_, _ = c.call(ctx, methodTxn, txn) // it may be refused
			}
		})
	}
	clients.Wait()
}
