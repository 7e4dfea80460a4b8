package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// patience is missed only by a broken machine.
const patience = 2 * time.Minute

var one = Keyspace{Name: "one", ID: 7, Secret: []byte("0123456789abcdef0123456789abcdef")}

// ownDisk is that of the gateway that answers.
var ownDisk = core.Disk{Name: 21, Identity: 22}

// answers is what a gateway answers.
type answers struct {
	content []byte
	broken  error // after the content
	refuse  bool

	mu       sync.Mutex
	calls    int
	received [sha256.Size]byte // the sum of an installed content
	reports  chan core.Report
	pushes   chan driver.Pushed
	begun    chan bool  // an installation begins
	installs chan error // how its content came
}

func (a *answers) called() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.refuse {
		return fmt.Errorf("%w: not here", driver.ErrRefused)
	}
	return nil
}

func (a *answers) Reported(from core.Disk, r core.Report) {
	if a.called() == nil && from == (core.Disk{Name: 1, Identity: 2}) {
		a.reports <- r
	}
}

func (a *answers) Pushed(from core.Disk, p driver.Pushed) {
	if a.called() == nil && from == (core.Disk{Name: 1, Identity: 2}) {
		a.pushes <- p
	}
}

func (a *answers) Ask(_ context.Context, era uint64) (core.Disk, core.Answer, error) {
	return ownDisk, core.Answer{Last: core.Position{Era: era, Index: 5, Term: 6}, Promised: 9}, a.called()
}

func (a *answers) Install(_ context.Context, base core.Position, r io.Reader) (core.Disk, core.Answer, error) {
	if err := a.called(); err != nil {
		return ownDisk, core.Answer{}, err
	}
	a.begun <- true
	content, err := io.ReadAll(r)
	a.mu.Lock()
	a.received = sha256.Sum256(content)
	a.mu.Unlock()
	a.installs <- err
	return ownDisk, core.Answer{Last: base}, err
}

func (a *answers) Take(context.Context) (driver.Content, error) {
	data := io.Reader(bytes.NewReader(a.content))
	if a.broken != nil {
		data = io.MultiReader(data, iotest.ErrReader(a.broken))
	}
	return driver.Content{Last: core.Position{Era: 1, Index: 2, Term: 3}, Data: io.NopCloser(data)}, a.called()
}

func (a *answers) Fetch(ctx context.Context, era, index uint64) (driver.Content, error) {
	c, err := a.Take(ctx)
	c.Last = core.Position{Era: era, Index: index + 1}
	return c, err
}

// serve answers on a socket with the server that gateways have.
func serve(t *testing.T, k Keyspace, h driver.Handler) driver.Gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.66.18.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handlers, unary := map[string]func(grpc.ServerStream) error{}, map[string]bool{}
	server, desc := NewServer(k, ownDisk.Name, h), &keyspacev1.Peers_ServiceDesc
	for _, m := range desc.Methods {
		path := "/" + desc.ServiceName + "/" + m.MethodName
		unary[path] = true
		handlers[path] = func(s grpc.ServerStream) error {
			answer, err := m.Handler(server, s.Context(), s.RecvMsg, nil)
			if err != nil {
				return err
			}
			return s.SendMsg(answer)
		}
	}
	for _, m := range desc.Streams {
		handlers["/"+desc.ServiceName+"/"+m.StreamName] = func(s grpc.ServerStream) error { return m.Handler(server, s) }
	}
	s := grpcserver.New(grpcserver.Options{
		Codec: grpcserver.Proto{}, Unary: func(method string) bool { return unary[method] },
		Handle:          func(method string, s grpc.ServerStream) error { return handlers[method](s) },
		MaxMessageBytes: 1 << 20, PingEvery: time.Minute, PingTimeout: time.Minute,
	})
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		serving.Wait()
	})
	return driver.Gateway{Disk: ownDisk, Member: "b", Address: l.Addr().String()}
}

func connect(t *testing.T, k Keyspace) *Peers {
	p := New(k, insecure.NewCredentials())
	t.Cleanup(func() { p.Close() })
	return p
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// content is one that does not compress, of many pieces.
func content(t *testing.T, n int) []byte {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = random.Read(b)
	return b
}

// TestCalls: each call arrives with its arguments, and its answer with the disk that gives it.
func TestCalls(t *testing.T) {
	h := &answers{
		content: content(t, 5<<20+123), reports: make(chan core.Report, 1000), begun: make(chan bool, 10),
		installs: make(chan error, 10),
	}
	to, p, ctx := serve(t, one, h), connect(t, one), within(t)
	d, a, err := p.Ask(ctx, to, 4)
	if want := (core.Answer{Last: core.Position{Era: 4, Index: 5, Term: 6}, Promised: 9}); err != nil || a != want || d != ownDisk {
		t.Errorf("ask: %+v, %+v, %v", d, a, err)
	}
	for _, size := range []int{0, 1, pieceBytes, len(h.content)} {
		sent := h.content[:size]
		base := core.Position{Era: 5, Index: uint64(size)}
		d, a, err = p.Install(ctx, to, base, iotest.HalfReader(bytes.NewReader(sent)))
		h.mu.Lock()
		whole := h.received == sha256.Sum256(sent)
		h.mu.Unlock()
		if err != nil || a.Last != base || d != ownDisk || !whole || await(ctx, t, h.installs) != nil {
			t.Errorf("install of %d bytes: %+v, %+v, %v, as it was: %v", size, d, a, err, whole)
		}
	}
	for what, open := range map[core.Position]func() (driver.Content, error){
		{Era: 1, Index: 2, Term: 3}: func() (driver.Content, error) { return p.Take(ctx, to) },
		{Era: 8, Index: 10}:         func() (driver.Content, error) { return p.Fetch(ctx, to, 8, 9) },
	} {
		c, err := open()
		if err != nil || c.Last != what {
			t.Fatalf("%+v: %+v, %v", what, c, err)
		}
		got, err := io.ReadAll(c.Data)
		if err != nil || !bytes.Equal(got, h.content) || c.Data.Close() != nil {
			t.Errorf("%+v: %d bytes, %v", what, len(got), err)
		}
	}
	for i := range uint64(200) {
		p.Report(to, core.Disk{Name: 1, Identity: 2}, core.Report{Era: 3, Index: i})
	}
	for last := uint64(0); last < 199; {
		select {
		case r := <-h.reports:
			if r.Index < last || r.Era != 3 {
				t.Fatalf("%+v after entry %d", r, last)
			}
			last = r.Index
		case <-ctx.Done():
			t.Fatalf("the last report is of entry %d", last)
		}
	}
}

// TestPush: entries arrive in their order before the report of them. Entries above the limit are only reported.
func TestPush(t *testing.T) {
	h := &answers{reports: make(chan core.Report, 1000), pushes: make(chan driver.Pushed, 1000)}
	to, p, ctx := serve(t, one, h), connect(t, one), within(t)
	pushed := driver.Pushed{Era: 3, Term: 4, First: 1}
	for range 100 {
		pushed.Payloads = append(pushed.Payloads, bytes.Repeat([]byte{byte(len(pushed.Payloads))}, 1300))
	}
	from := core.Disk{Name: 1, Identity: 2}
	p.Push(to, from, pushed)
	if r := await(ctx, t, h.reports); r != (core.Report{Era: 3, Log: 100}) {
		t.Errorf("%+v", r)
	}
	var got [][]byte
	for len(h.pushes) > 0 {
		some := <-h.pushes
		if some.Era != 3 || some.Term != 4 || some.First != uint64(len(got))+1 || len(some.Payloads) > pieceBytes/1300 {
			t.Errorf("%d entries of era %d and term %d from %d on", len(some.Payloads), some.Era, some.Term, some.First)
		}
		got = append(got, some.Payloads...)
	}
	if !reflect.DeepEqual(got, pushed.Payloads) {
		t.Errorf("%d entries", len(got))
	}
	p.Push(to, from, driver.Pushed{Era: 3, Term: 4, First: 101, Payloads: [][]byte{make([]byte, waitingBytes+1)}})
	if r := await(ctx, t, h.reports); r != (core.Report{Era: 3, Log: 101}) || len(h.pushes) > 0 {
		t.Errorf("%+v, %d pushes", r, len(h.pushes))
	}
}

// TestReportsToOneThatComesBack: a gateway that was not there gets the newest report when it is.
func TestReportsToOneThatComesBack(t *testing.T) {
	p, ctx := connect(t, one), within(t)
	l, err := net.Listen("tcp", "127.66.18.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := driver.Gateway{Disk: ownDisk, Member: "b", Address: l.Addr().String()}
	l.Close()
	h := &answers{reports: make(chan core.Report, 1000)}
	server := grpc.NewServer()
	keyspacev1.RegisterPeersServer(server, NewServer(one, ownDisk.Name, h))
	p.Report(to, core.Disk{Name: 1, Identity: 2}, core.Report{Era: 1, Index: 1})
	if l, err = net.Listen("tcp", to.Address); err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	again := time.NewTicker(10 * time.Millisecond) // as a gateway looks again
	defer again.Stop()
	for i := uint64(2); ; i++ {
		p.Report(to, core.Disk{Name: 1, Identity: 2}, core.Report{Era: 1, Index: i})
		select {
		case <-h.reports:
			return
		case <-again.C:
		case <-ctx.Done():
			t.Fatal("no report comes")
		}
	}
}

// TestRefused: a stranger, a gateway of another keyspace or release, and one that means another gateway are refused.
// No handler hears of them.
func TestRefused(t *testing.T) {
	h := &answers{reports: make(chan core.Report, 10)}
	to, ctx := serve(t, one, h), within(t)
	other, stranger, elsewhere := one, one, to
	other.ID, stranger.Secret, elsewhere.Disk.Name = 8, []byte("guessed"), 99
	for want, call := range map[string]struct {
		k  Keyspace
		to driver.Gateway
	}{
		"of one with 7":  {other, to},
		"another secret": {stranger, to},
		"and not 63":     {one, elsewhere},
	} {
		p := connect(t, call.k)
		_, _, asked := p.Ask(ctx, call.to, 1)
		_, _, installed := p.Install(ctx, call.to, core.Position{Era: 1}, bytes.NewReader(make([]byte, 1<<20)))
		_, taken := p.Take(ctx, call.to)
		_, fetched := p.Fetch(ctx, call.to, 1, 1)
		for _, err := range []error{asked, installed, taken, fetched} {
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		p.Report(call.to, core.Disk{Name: 1, Identity: 2}, core.Report{Era: 1, Index: 1})
	}
	conn, err := grpc.NewClient("passthrough:///"+to.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := keyspacev1.NewPeersClient(conn)
	if _, err := c.Ask(ctx, &keyspacev1.AskRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a client of etcd: %v", err)
	}
	newer, err := proto.Marshal(&keyspacev1.Caller{Format: 2, Keyspace: 7, Secret: one.Secret, Called: ownDisk.Name})
	if err != nil {
		t.Fatal(err)
	}
	newerCtx := metadata.AppendToOutgoingContext(ctx, callerKey, string(newer))
	if _, err := c.Ask(newerCtx, &keyspacev1.AskRequest{}); err == nil || !strings.Contains(err.Error(), "same release") {
		t.Errorf("another release: %v", err)
	}
	if h.calls != 0 {
		t.Errorf("%d calls came through", h.calls)
	}
	nobody := to
	nobody.Address = "127.66.18.1:1"
	if _, _, err := connect(t, one).Ask(ctx, nobody, 1); err == nil || errors.Is(err, driver.ErrRefused) {
		t.Errorf("nobody: %v", err)
	}
}

// TestRefusingHandler: a handler's refusal arrives as one, also if it does not read the content.
func TestRefusingHandler(t *testing.T) {
	h := &answers{refuse: true}
	to, p, ctx := serve(t, one, h), connect(t, one), within(t)
	_, _, asked := p.Ask(ctx, to, 1)
	_, _, installed := p.Install(ctx, to, core.Position{Era: 1}, bytes.NewReader(make([]byte, 64<<20)))
	_, fetched := p.Fetch(ctx, to, 1, 1)
	for _, err := range []error{asked, installed, fetched} {
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "not here") {
			t.Errorf("%v", err)
		}
	}
}

// TestBrokenContent: a content that ends early is complete for nobody.
func TestBrokenContent(t *testing.T) {
	broken := errors.New("the disk is broken")
	for _, failure := range []error{broken, io.ErrUnexpectedEOF} {
		h := &answers{content: content(t, 100_000), broken: failure, begun: make(chan bool, 1), installs: make(chan error, 1)}
		to, p, ctx := serve(t, one, h), connect(t, one), within(t)
		c, err := p.Take(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, c.Data); err == nil || !strings.Contains(err.Error(), failure.Error()) {
			t.Errorf("%d bytes were taken: %v", n, err)
		}
		sent := io.MultiReader(bytes.NewReader(h.content), readerFunc(func([]byte) (int, error) {
			await(ctx, t, h.begun)
			return 0, failure
		}))
		if _, _, err := p.Install(ctx, to, core.Position{Era: 1}, sent); !errors.Is(err, failure) {
			t.Errorf("the installed content: %v", err)
		}
		if await(ctx, t, h.installs) == nil {
			t.Error("the beginning of a content was taken for all of it")
		}
		c, err = p.Take(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, c.Data); err == nil {
			t.Error("a content was read to its end after Close")
		}
	}
	h := &answers{begun: make(chan bool, 1), installs: make(chan error, 1)}
	to, p := serve(t, one, h), connect(t, one)
	ctx, cancel := context.WithCancel(within(t))
	sent := io.MultiReader(bytes.NewReader(make([]byte, 100_000)), readerFunc(func([]byte) (int, error) {
		await(ctx, t, h.begun)
		cancel()
		return 0, ctx.Err()
	}))
	if _, _, err := p.Install(ctx, to, core.Position{Era: 1}, sent); err == nil {
		t.Error("a content was installed whose sender is gone")
	}
	if await(within(t), t, h.installs) == nil {
		t.Error("the beginning of a content was taken for all of it")
	}
}

// await returns what a channel brings.
func await[A any](ctx context.Context, t *testing.T, from <-chan A) (a A) {
	t.Helper()
	select {
	case a = <-from:
	case <-ctx.Done():
		t.Error("nothing comes")
	}
	return a
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// FuzzCaller: metadata from the network is refused, unless it is that of a gateway of the keyspace.
func FuzzCaller(f *testing.F) {
	good, err := proto.Marshal(&keyspacev1.Caller{Format: format, Keyspace: one.ID, Secret: one.Secret, Called: ownDisk.Name})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, said []byte) {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(callerKey, string(said)))
		caller := new(keyspacev1.Caller)
		is := proto.Unmarshal(said, caller) == nil && caller.GetFormat() == format && caller.GetKeyspace() == one.ID &&
			bytes.Equal(caller.GetSecret(), one.Secret) && caller.GetCalled() == ownDisk.Name
		if err := one.check(ctx, ownDisk.Name); (err == nil) != is {
			t.Fatalf("%x: %v", said, err)
		}
	})
}

// FuzzPieces: a content is what it was, whatever its pieces are.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("a content"), uint8(3))
	f.Fuzz(func(t *testing.T, sent []byte, size uint8) {
		var all [][]byte
		err := inPieces(iotest.OneByteReader(bytes.NewReader(sent)), func(piece []byte) error {
			for len(piece) > 0 { // shorter ones, and empty ones
				n := min(len(piece), int(size)%7+1)
				all, piece = append(all, bytes.Clone(piece[:n]), nil), piece[n:]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(&pieces{next: func() ([]byte, error) {
			if len(all) == 0 {
				return nil, io.EOF
			}
			piece := all[0]
			all = all[1:]
			return piece, nil
		}})
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%x becomes %x, %v", sent, got, err)
		}
	})
}
