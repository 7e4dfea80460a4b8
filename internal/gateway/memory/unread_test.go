package memory

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unread is a call of a client that lets the server send window bytes of the answer and no more.
type unread struct {
	frames *http2.Framer
	window int
}

func callUnread(t *testing.T, address, method string, window int, request proto.Message) *unread {
	t.Helper()
	n := must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { n.Close() })
	u := &unread{http2.NewFramer(n, n), window}
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "a"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	message := must(proto.Marshal(request))(t)
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	must(io.WriteString(n, http2.ClientPreface))(t)
	for _, err := range []error{
		u.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(window)}),
		u.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
		u.frames.WriteData(1, false, framed),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// read reads until the server may send no more: the rest waits.
func (u *unread) read(t *testing.T) {
	t.Helper()
	for got := 0; got < u.window; {
		if data, ok := must(u.frames.ReadFrame())(t).(*http2.DataFrame); ok {
			got += len(data.Data())
		}
	}
}

// TestUnreadAnswersDoNotStopAGateway: a gateway ends, which closes its copy of the keyspace, although a client does not read
// the events of its watch, or another gateway does not read the replies to its writes.
func TestUnreadAnswersDoNotStopAGateway(t *testing.T) {
	const window = 200 // the first response, and the beginning of the second one
	watch := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 1, PrevKv: true},
	}}
	read := &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k")}}
	write := &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("l")}}
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: read}, {Request: write}}}
	relayed := item{1, itemTxn, must(proto.Marshal(txn))(t)}
	for _, c := range []struct {
		method  string
		request proto.Message
	}{
		{pb.Watch_Watch_FullMethodName, watch}, {relayMethod, &wrapperspb.BytesValue{Value: relayed.append(nil)}},
	} {
		t.Run(c.method, func(t *testing.T) {
			g := start(t, startChain(t), Options{LogEntries: 4096, FirstRevision: 1})
			g.waitActive(t)
			must(open(t, g.address).Put(t.Context(), "k", string(make([]byte, 200<<10))))(t)
			callUnread(t, g.address, c.method, window, c.request).read(t)
			space := g.current()
			g.stop()
			if done, ok := space.Use(); ok {
				done()
				t.Error("the keyspace is in use after the end of its gateway")
			}
		})
	}
}

// TestRangeStreamReadsPages: a client that does not read a stream keeps a page of it from the memory, not all of it.
func TestRangeStreamReadsPages(t *testing.T) {
	const values, value = 64, 512 << 10
	g := start(t, startChain(t), Options{LogEntries: 4096})
	g.waitActive(t)
	c := open(t, g.address)
	for i := range values {
		must(c.Put(t.Context(), fmt.Sprint(i), string(make([]byte, value))))(t)
	}
	everything := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	callUnread(t, g.address, pb.KV_RangeStream_FullMethodName, 200, everything).read(t)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > values*value/2 {
		t.Errorf("%d bytes were made for the first page of %d", n, values*value)
	}
}
