package etcdload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// FrameConn is a connection on which requests are frames that this package makes itself, and one goroutine serves all
// of its clients: the cheapest client, with which the servers' own cost shows.
type FrameConn struct {
	conn    net.Conn
	reader  *bufio.Reader
	framer  *http2.Framer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	block   bytes.Buffer
	out     bytes.Buffer
	next    uint32 // number of the next call
	calls   map[uint32]time.Time
	status  string // of the answer whose header is decoded
	taken   int    // bytes since the last WINDOW_UPDATE
}

// Close ends the connection.
func (c *FrameConn) Close() error { return c.conn.Close() }

// dialWithin bounds the wait for a connection.
const dialWithin = 10 * time.Second

// frameWindow is how many bytes of answers may be under way.
const frameWindow = 1 << 28

// DialFrames opens a connection to host:port.
func DialFrames(address string) (*FrameConn, error) {
	conn, err := net.DialTimeout("tcp", address, dialWithin)
	if err != nil {
		return nil, err
	}
	c := &FrameConn{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), next: 1, calls: make(map[uint32]time.Time)}
	c.framer, c.encoder = http2.NewFramer(&c.out, c.reader), hpack.NewEncoder(&c.block)
	c.framer.SetReuseFrames()
	c.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	})
	c.out.WriteString(http2.ClientPreface)
	err = errors.Join(
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: frameWindow}),
		c.framer.WriteWindowUpdate(0, frameWindow), c.flush(),
	)
	return c, err
}

func (c *FrameConn) flush() error {
	_, err := c.conn.Write(c.out.Bytes())
	c.out.Reset()
	return err
}

// Fields of requests: of reads, and of writes.
const (
	fieldKey      = 1
	fieldRangeEnd = 2
	fieldValue    = 2
	fieldLimit    = 3
)

// message encodes a request.
func (l *Load) message(random *rand.Rand) (method string, message []byte, err error) {
	message = make([]byte, 5, 128+len(l.Value)) // whether it is compressed, and its length
	write, key := l.writes(random), l.Key(random)
	switch {
	case !write:
		method, message = "/etcdserverpb.KV/Range", l.appendRange(message, key)
	case l.Txn:
		method = "/etcdserverpb.KV/Txn"
		message, err = appendTxn(message, key, l.Value)
	default:
		method, message = "/etcdserverpb.KV/Put", appendPut(message, key, l.Value)
	}
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-5))
	return method, message, err
}

func (l *Load) appendRange(b []byte, key string) []byte {
	b = appendString(b, fieldKey, key)
	if l.Prefix {
		b = appendString(b, fieldRangeEnd, clientv3.GetPrefixRangeEnd(key))
	}
	if l.Limit != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldLimit, protowire.VarintType), uint64(l.Limit))
	}
	return b
}

func appendPut(b []byte, key, value string) []byte {
	return appendString(appendString(b, fieldKey, key), fieldValue, value)
}

// appendTxn appends a put if the key exists, else a get.
func appendTxn(b []byte, key, value string) ([]byte, error) {
	k := []byte(key)
	return proto.MarshalOptions{}.MarshalAppend(b, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Result: pb.Compare_GREATER, Target: pb.Compare_CREATE, Key: k, TargetUnion: &pb.Compare_CreateRevision{},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: k, Value: []byte(value)}}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: k}}}},
	})
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// begin begins a call.
func (c *FrameConn) begin(l *Load, random *rand.Rand) error {
	method, message, err := l.message(random)
	if err != nil {
		return err
	}
	c.block.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "etcd"}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	c.calls[c.next] = time.Now()
	header := http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.block.Bytes(), EndHeaders: true}
	err = errors.Join(c.framer.WriteHeaders(header), c.framer.WriteData(c.next, true, message))
	c.next += 2
	return err
}

// take takes a frame. It returns the call that it ends, and whether that failed.
func (c *FrameConn) take(f http2.Frame) (ended uint32, failed error, err error) {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		c.status = ""
		if _, err := c.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return 0, nil, err
		}
		if !f.StreamEnded() {
			return 0, nil, nil
		}
		if c.status != "0" {
			failed = fmt.Errorf("status %s", c.status)
		}
		return f.StreamID, failed, nil
	case *http2.DataFrame:
		if c.taken += int(f.Length); c.taken > frameWindow/4 {
			err = c.framer.WriteWindowUpdate(0, uint32(c.taken))
			c.taken = 0
		}
		return 0, nil, err
	case *http2.RSTStreamFrame:
		return f.StreamID, fmt.Errorf("reset: %v", f.ErrCode), nil
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return 0, nil, c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return 0, nil, c.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		return 0, nil, fmt.Errorf("the server ends the connection: %v", f.ErrCode)
	case *http2.ContinuationFrame:
		return 0, nil, errors.New("a header in several frames")
	}
	return 0, nil, nil
}

// run has as many clients do one request after the other.
func (c *FrameConn) run(l *Load, clients int, random *rand.Rand, from, until time.Time, seen *tally) error {
	for range clients {
		if err := c.begin(l, random); err != nil {
			return err
		}
		seen.begun++
	}
	for len(c.calls) > 0 {
		if c.reader.Buffered() == 0 && c.out.Len() > 0 {
			if err := c.flush(); err != nil {
				return err
			}
		}
		f, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		ended, failed, err := c.take(f)
		if err != nil {
			return err
		}
		start, there := c.calls[ended]
		if !there {
			continue
		}
		delete(c.calls, ended)
		end := time.Now()
		if !end.Before(from) && !end.After(until) {
			seen.note(end.Sub(start), failed)
		}
		if end.Before(until) {
			if err := c.begin(l, random); err != nil {
				return err
			}
			seen.begun++
		}
	}
	return c.flush()
}

// RunFrames is [Plan.Run] with connections of frames.
func (p *Plan) RunFrames(ctx context.Context, conns []*FrameConn, l *Load, round int) (Window, error) {
	from, until := p.bounds(time.Now())
	seen, errs := make([]tally, len(conns)), make([]error, len(conns))
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			_ = c.conn.SetDeadline(time.Unix(0, 1)) // fails only on a closed connection
		}
	})
	defer stop()
	var group sync.WaitGroup
	for i, c := range conns {
		random := rand.New(rand.NewPCG(p.Seed, uint64(round*len(conns)+i)))
		clients := p.Clients / len(conns)
		if i < p.Clients%len(conns) {
			clients++
		}
		group.Go(func() {
			errs[i] = errors.Join(c.conn.SetDeadline(until.Add(requestWithin)), c.run(l, clients, random, from, until, &seen[i]))
			if errors.Is(errs[i], io.EOF) {
				errs[i] = fmt.Errorf("%s: the server at %v closed a connection: %w", l.Name, c.conn.RemoteAddr(), errs[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return Window{}, err
	}
	return p.window(l, seen)
}
