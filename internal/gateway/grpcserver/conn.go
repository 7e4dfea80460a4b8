package grpcserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/netcraq/netcraq/internal/gateway/recovery"
)

// conn is a connection of a client.
type conn struct {
	server  *Server
	net     net.Conn
	framer  *http2.Framer // reads
	in      headers       // the reader's
	trusted bool          // it comes from within the process

	// The reader's.
	opened    opening // the call whose header is received
	heading   bool    // a header has begun and not ended
	beginning int     // bytes of it that are counted
	changes   rate    // of SETTINGS

	mu          sync.Mutex
	out         []byte      // frames that wait for the writer
	writing     int         // bytes that the writer has taken
	counted     int         // of the output, those that the account knows of
	sweep       *time.Timer // looks at requests that have not arrived
	work        *sync.Cond  // there is something to write, or nothing will be
	written     *sync.Cond  // output has been written
	answers     answers
	calls       map[uint32]*Call
	large       *semaphore.Weighted // requests: see [largeOfConn]
	turns       *semaphore.Weighted // answers: see [maxAnswers]
	account     *account
	owed        int                 // bytes that the account does not know of
	running     int                 // unary calls with a handler
	later       []*Call             // those that wait for one
	headerBytes int                 // of the calls that active counts
	active      int                 // calls, those included that were reset and have not ended
	last        uint32              // the newest call
	recent      [recentCalls]uint32 // see note
	window      int                 // bytes that may be sent
	ours        int                 // bytes that the client may send
	unannounced int                 // bytes that it may send beside these, and has not been told of
	initial     int                 // window of new calls
	maxFrame    int
	waiting     []*Call // that could send if the connection's window let them
	held        int     // bytes of messages that wait for a window
	frames      uint64  // received
	pings       pings
	draining    bool
	ending      bool // close when all output is written
	closed      bool
	panicked    bool            // what happened on the connection: see [conn.contain]
	ctx         context.Context // of calls
	cancel      context.CancelFunc
}

func newConn(s *Server, n net.Conn) *conn {
	c := &conn{
		server: s, net: n, calls: make(map[uint32]*Call),
		large:  semaphore.NewWeighted(largeOfConn * int64(s.o.MaxMessageBytes)),
		turns:  semaphore.NewWeighted(maxAnswers),
		window: firstWindow, ours: firstWindow, initial: firstWindow, maxFrame: firstFrame,
	}
	c.work, c.written = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(peer.NewContext(context.Background(), peerOf(n)))
	c.in.init()
	name := ""
	if n != nil {
		name = n.RemoteAddr().String()
	}
	c.account = s.o.Memory.join(name, c.evict)
	return c
}

// peerOf tells handlers who calls.
func peerOf(n net.Conn) *peer.Peer {
	p := &peer.Peer{}
	if n == nil {
		return p
	}
	p.Addr, p.LocalAddr = n.RemoteAddr(), n.LocalAddr()
	if secure, is := n.(interface{ ConnectionState() tls.ConnectionState }); is {
		p.AuthInfo = credentials.TLSInfo{
			State: secure.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	return p
}

// What HTTP/2 has before any SETTINGS.
const (
	firstWindow = 65_535
	firstFrame  = 16_384
	maxWindow   = 1<<31 - 1
)

// readBuffer is how many bytes are read at once.
const readBuffer = 32 << 10

// run serves the connection until its end, that of its calls included.
func (c *conn) run() {
	var writer sync.WaitGroup
	writer.Go(func() {
		c.contain("the writer", c.write)
		c.contain("the end", c.close)
	})
	c.contain("the reader", func() { c.fail(c.receive()) })
	writer.Wait()
	c.mu.Lock()
	for c.active > 0 && !c.panicked {
		c.written.Wait()
	}
	c.mu.Unlock()
	c.account.leave()
}

// contain runs a part of what happens on a connection. A panic ends the connection alone. Nobody waits for its calls
// then: one may have nobody who ends it. Whatever do calls has to give up mu when it panics.
func (c *conn) contain(part string, do func()) {
	if !recovery.Contain(part, c.account.name, do) {
		return
	}
	c.mu.Lock()
	c.panicked = true
	c.written.Broadcast()
	c.mu.Unlock()
	c.fail(http2.ConnectionError(http2.ErrCodeInternal))
}

// after calls do on a goroutine of its own after a while.
func (c *conn) after(wait time.Duration, do func()) *time.Timer {
	return time.AfterFunc(wait, func() { c.contain("a timer", do) })
}

// receive takes what the client sends until the connection ends.
func (c *conn) receive() error {
	if err := c.handshake(); err != nil {
		return err
	}
	defer c.watch()()
	return c.read()
}

// charge counts bytes of requests and answers. The caller holds mu.
func (c *conn) charge(n int) {
	if c.owed += n; c.owed >= chargeStep || c.owed <= -chargeStep {
		c.account.add(c.owed)
		c.owed = 0
	}
}

// hold counts bytes of messages that wait for a window. The caller holds mu.
func (c *conn) hold(n int) {
	c.held += n
	c.charge(n)
}

// evict ends the connection for want of memory. Its calls end at once, and the client is told if it reads.
func (c *conn) evict() {
	c.contain("the eviction", func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.draining, c.ending = true, true
		c.out = appendGoAway(c.out, c.last, http2.ErrCodeEnhanceYourCalm, "")
		c.work.Signal()
		c.abort()
	})
	_ = c.net.SetDeadline(time.Now().Add(goAwayTimeout)) // an error says that it is closed
}

// abort ends all calls. The caller holds mu.
func (c *conn) abort() {
	c.written.Broadcast()
	for id, call := range c.calls {
		delete(c.calls, id)
		call.abort()
	}
}

// handshake exchanges the prefaces and the first SETTINGS.
func (c *conn) handshake() error {
	late := c.after(prefaceTimeout, c.close) // and no deadline: whoever had the connection before may lift it still
	defer late.Stop()
	reader := bufio.NewReaderSize(c.net, readBuffer)
	c.framer = http2.NewFramer(nil, reader)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(firstFrame)
	most := uint32(min(c.server.o.MaxCalls, math.MaxUint32))
	if c.trusted {
		most = math.MaxUint32
	}
	c.mu.Lock()
	c.out = appendSettings(c.out,
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: most},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: callWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaderBytes})
	c.out = appendWindow(c.out, 0, connWindow-firstWindow)
	c.ours = connWindow
	c.work.Signal()
	c.mu.Unlock()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(reader, preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	f, err := c.framer.ReadFrame()
	if err != nil {
		return err
	}
	settings, ok := f.(*http2.SettingsFrame)
	if !ok || settings.IsAck() {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.settings(settings)
}

// read takes frames until the connection ends.
func (c *conn) read() error {
	for {
		f, err := c.framer.ReadFrame()
		if err == nil {
			err = c.frame(f)
		}
		var call http2.StreamError
		if errors.As(err, &call) && call.StreamID <= c.last { // not a header: its block would be missing from the table
			c.reset(call.StreamID, call.Code, true)
			err = nil
		}
		if err != nil {
			return err
		}
		if err := c.pace(); err != nil {
			return err
		}
	}
}

// pace waits while too much output waits for the client.
func (c *conn) pace() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames++
	c.count()
	for len(c.out)+c.writing > maxOutputBytes && !c.closed {
		c.written.Wait()
	}
	if c.closed {
		return net.ErrClosed
	}
	return nil
}

func (c *conn) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		return c.begin(f)
	case *http2.ContinuationFrame:
		return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.data(f)
	case *http2.WindowUpdateFrame:
		return c.grant(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.pong(f.Data)
		}
	case *http2.RSTStreamFrame:
		if f.StreamID > c.last {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.reset(f.StreamID, f.ErrCode, false)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // GOAWAY: the client closes the connection when its calls have ended
}

// opening is what is left of a HEADERS frame when its block has ended.
type opening struct {
	id     uint32
	end    bool
	itself bool // it depends on itself
}

// rate counts events in a period.
type rate struct {
	events int
	since  time.Time
}

// above counts an event, and reports whether there were more than a number in the period.
func (r *rate) above(most int, period time.Duration, now time.Time) bool {
	if now.Sub(r.since) >= period {
		r.events, r.since = 0, now
	}
	r.events++
	return r.events > most
}

// settings takes and acknowledges the client's settings.
func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if f.NumSettings() > maxInFrame { // each may cost as much as there are calls, and other clients' answers wait for mu
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if c.changes.above(maxSettings, settingsTime, time.Now()) {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			c.answers.tableSize(s.Val)
		case http2.SettingMaxFrameSize:
			c.maxFrame = min(int(s.Val), maxSent)
		case http2.SettingInitialWindowSize:
			more := int(s.Val) - c.initial
			c.initial = int(s.Val)
			for _, call := range c.calls {
				if call.window += more; call.window > maxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
		}
		return nil
	})
	// The ACK precedes what the settings permit.
	c.out = appendFrame(c.out, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	c.work.Signal()
	for _, call := range c.calls {
		call.pump()
	}
	return err
}

// grant takes a larger window of the client's.
func (c *conn) grant(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID != 0 {
		call := c.calls[f.StreamID]
		switch {
		case f.StreamID > c.last:
			return http2.ConnectionError(http2.ErrCodeProtocol)
		case call == nil:
			return nil
		}
		if call.window += int(f.Increment); call.window > maxWindow {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
		}
		call.pump()
		return nil
	}
	if c.window += int(f.Increment); c.window > maxWindow {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	c.resume()
	return nil
}

// resume lets calls send that waited for the connection's window, or until output was written. The caller holds mu.
func (c *conn) resume() {
	for len(c.waiting) > 0 && c.window > 0 && len(c.out) < maxOutputBytes {
		call := c.waiting[0]
		c.waiting[0], c.waiting = nil, c.waiting[1:]
		call.queued = false
		call.pump()
	}
}

// credit lets the client send as many bytes as were taken. The caller holds mu.
func (c *conn) credit(n int) {
	if c.unannounced += n; c.unannounced >= connWindow/4 || c.unannounced > c.ours {
		c.out = appendWindow(c.out, 0, c.unannounced)
		c.ours, c.unannounced = c.ours+c.unannounced, 0
		c.work.Signal()
	}
}

// write writes the output.
func (c *conn) write() {
	var spare []byte
	for {
		spare = c.await(spare)
		runtime.Gosched() // other answers of this moment go with the same system call
		out := c.takeOutput(spare)
		if len(out) == 0 {
			return
		}
		_, err := c.net.Write(out)
		spare = out
		if c.wrote(); err != nil {
			return
		}
	}
}

// await waits until there is something to write, or nothing will be. It returns a buffer that the writer keeps.
func (c *conn) await(spare []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 && !c.closed && !c.ending {
		c.out, spare = keep(c.out), keep(spare)
		c.work.Wait()
	}
	return spare
}

// takeOutput takes what is to be written, and leaves a buffer for more. Nothing: the connection ends.
func (c *conn) takeOutput(spare []byte) (out []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if out = c.out; len(out) > 0 {
		c.out, c.writing = spare[:0], len(out)
		c.count()
	}
	return out
}

// wrote lets go on what waited until output was written.
func (c *conn) wrote() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = 0
	c.resume()
	c.count()
	c.written.Broadcast()
}

// keep returns a buffer to be used again; nil if an idle connection may not keep as much.
func keep(buffer []byte) []byte {
	if cap(buffer) > maxKept {
		free(buffer)
		return nil
	}
	return buffer[:0]
}

// count counts the output that waits or is written. The caller holds mu.
func (c *conn) count() {
	n := len(c.out) + c.writing
	c.charge(n - c.counted)
	c.counted = n
}

// fail ends the connection because of what the reader met, and tells the client.
func (c *conn) fail(err error) {
	var code http2.ErrCode
	var why string
	var known http2.ConnectionError
	switch {
	case errors.As(err, &known):
		code = http2.ErrCode(known)
	case errors.Is(err, errPings):
		code, why = http2.ErrCodeEnhanceYourCalm, tooManyPings
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	default: // the client is gone
		c.close()
		return
	}
	c.mu.Lock()
	c.out = appendGoAway(c.out, c.last, code, why)
	c.ending = true
	c.work.Signal()
	c.mu.Unlock()
	_ = c.net.SetWriteDeadline(time.Now().Add(goAwayTimeout)) // an error says that it is closed
}

// goAwayTimeout bounds the sending of the last output, GOAWAY included.
const goAwayTimeout = time.Second

// drain lets the calls under way end, and takes no others.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining || c.closed {
		return
	}
	c.draining = true
	c.out = appendGoAway(c.out, c.last, http2.ErrCodeNo, "")
	c.endIfIdle()
	c.work.Signal()
}

// close ends the connection at once.
func (c *conn) close() {
	defer c.net.Close() // without mu: TLS may wait seconds for a client that does not read
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	if c.sweep != nil {
		c.sweep.Stop()
	}
	c.work.Signal()
	c.abort()
}

// watch notices a client that is away. The result ends it.
func (c *conn) watch() (stop func()) {
	o := &c.server.o
	if o.PingEvery == 0 {
		return func() {}
	}
	var timer *time.Timer
	seen, asked := uint64(0), false
	check := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.closed:
			return
		case c.frames != seen:
			seen, asked = c.frames, false
		case asked:
			go c.contain("the end", c.close)
			return
		default:
			asked = true
			c.out = append(appendFrame(c.out, http2.FramePing, 0, 0, 8), make([]byte, 8)...)
			c.work.Signal()
		}
		if asked {
			timer.Reset(o.PingTimeout)
		} else {
			timer.Reset(o.PingEvery)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	timer = c.after(o.PingEvery, check)
	return func() { timer.Stop() }
}

// frameBytes is the length of a frame's header.
const frameBytes = 9

// appendFrame appends the header of a frame.
func appendFrame(b []byte, kind http2.FrameType, flags http2.Flags, id uint32, length int) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, id)
}

func appendSettings(b []byte, settings ...http2.Setting) []byte {
	const length = 6
	b = appendFrame(b, http2.FrameSettings, 0, 0, length*len(settings))
	for _, s := range settings {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(s.ID)), s.Val)
	}
	return b
}

func appendWindow(b []byte, id uint32, more int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, http2.FrameWindowUpdate, 0, id, 4), uint32(more))
}

func appendReset(b []byte, id uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, http2.FrameRSTStream, 0, id, 4), uint32(code))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, why string) []byte {
	b = appendFrame(b, http2.FrameGoAway, 0, 0, 8+len(why))
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, last), uint32(code)), why...)
}
