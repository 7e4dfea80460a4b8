package conformance

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/wire"
)

// source serves a map as controllers and nodes do, and keys as controllers do.
type source struct {
	controllerv1.UnimplementedControllerServer
	addr   string
	server *grpc.Server

	mu      sync.Mutex
	newest  *controllerv1.MapResponse
	keys    *controllerv1.KeysResponse
	changed chan struct{} // closed by the next change
}

func newSource(t *testing.T, first *controllerv1.MapResponse, options ...grpc.ServerOption) *source {
	t.Helper()
	listener, err := net.Listen("tcp", "127.66.33.2:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{
		addr: listener.Addr().String(), server: grpc.NewServer(options...), newest: first, changed: make(chan struct{}),
	}
	controllerv1.RegisterControllerServer(s.server, s)
	go s.server.Serve(listener)
	t.Cleanup(s.server.Stop)
	return s
}

// present returns what the source has now.
func (s *source) present() (*controllerv1.MapResponse, *controllerv1.KeysResponse, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.keys, s.changed
}

func (s *source) Map(in *controllerv1.MapRequest, out grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	for known := in.GetKnown(); ; {
		newest, _, changed := s.present()
		if newest == nil {
			return status.Error(codes.Unavailable, "not formed yet")
		}
		if newest.GetVersion() > known {
			if err := out.Send(newest); err != nil {
				return err
			}
			known = newest.GetVersion()
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return nil
		}
	}
}

func (s *source) Keys(_ *controllerv1.KeysRequest, out grpc.ServerStreamingServer[controllerv1.KeysResponse]) error {
	for sent := uint32(0); ; {
		_, keys, changed := s.present()
		if keys.GetSign() > sent {
			if err := out.Send(keys); err != nil {
				return err
			}
			sent = keys.GetSign()
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return nil
		}
	}
}

func (s *source) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) set(m *controllerv1.MapResponse) { s.change(func() { s.newest = m }) }

// mapOf is a map of this version, in which one chain of these places, in this epoch, serves all shards.
func (w *world) mapOf(version uint64, epoch uint32, places ...int) *controllerv1.MapResponse {
	m := &controllerv1.MapResponse{Version: version, Cluster: "c", Shards: shards}
	c := &controllerv1.MapChain{Epoch: epoch}
	for i, addr := range w.addrs {
		m.Nodes = append(m.Nodes, &controllerv1.MapNode{
			Id: uint32(i + 1), Name: nodeName(i), Addr: addr.String(), Api: "127.66.33.9:1", // nobody is there
			Labels: map[string]string{"zone": "z"},
		})
	}
	for _, place := range places {
		c.Members = append(c.Members, uint32(place+1))
	}
	for shard := range uint16(shards) {
		c.Shards = binary.BigEndian.AppendUint16(c.Shards, shard)
	}
	m.Chains = []*controllerv1.MapChain{c}
	return m
}

// managed starts scripted nodes and a source of their map, and has the driver open the cluster.
func managed(t *testing.T, d *driver, s script, places ...int) (*world, *source) {
	t.Helper()
	w := newWorld(t, 3, s)
	from := newSource(t, w.mapOf(1, 1, places...))
	opens(t, d, from, attempt)
	return w, from
}

func opens(t *testing.T, d *driver, from *source, attempt int) {
	t.Helper()
	if o := d.do(t, "open controllers=%s attempt=%d timeout=%d", from.addr, attempt, plenty); o.Errors != nil {
		t.Fatal(o.Text)
	}
}

// move has the chain go on in another epoch.
func (w *world) move(s script, epoch uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.configure(epoch)
	w.script = s
}

// keysOf are the keys of these generations, the last one to sign with. A reader gets no keys of writes.
func keysOf(reader bool, generations ...uint32) (*wire.Keyring, *controllerv1.KeysResponse) {
	ring := &wire.Keyring{Sign: generations[len(generations)-1]}
	response := &controllerv1.KeysResponse{Sign: ring.Sign}
	for _, g := range generations {
		read, write := secret(byte(g)), secret(byte(g+100))
		ring.Keys = append(ring.Keys, wire.Keys{Generation: g, Read: read, Write: write})
		set := &controllerv1.KeySet{Generation: g, Read: read.Bytes(), Write: write.Bytes()}
		if reader {
			set.Write = nil
		}
		response.Keys = append(response.Keys, set)
	}
	return ring, response
}

func secret(first byte) *wire.Secret {
	b := slices.Repeat([]byte{first}, len(wire.Secret{}))
	b[1] = 0xfe
	return wire.SecretOf(b)
}
