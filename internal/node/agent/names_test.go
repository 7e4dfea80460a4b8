package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// calledAs is the context of a call whose other side has the certificate of a node; empty: one of any node.
func calledAs(t *testing.T, node string) context.Context {
	cert := &x509.Certificate{}
	if node != "" {
		cert.URIs = []*url.URL{{Scheme: "netcraq", Path: "/node/" + node}}
	}
	info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info})
}

// TestNamesInCopies: a copy comes from the node at that address and goes to a node of the chain, if certificates have names.
func TestNamesInCopies(t *testing.T) {
	m := &membership{}
	m.relay.changed = make(chan struct{})
	m.relay.newest = &controllerv1.MapResponse{
		Nodes: []*controllerv1.MapNode{{Id: 1, Name: "n1", Api: "a:1"}, {Id: 2, Name: "n2", Api: "a:2"}, {Id: 3, Name: "n3", Api: "a:3"}},
		Chains: []*controllerv1.MapChain{
			{Members: []uint32{1, 2}, Shards: []byte{0, 0, 0, 1}}, {Members: []uint32{1}, Shards: []byte{0, 2}},
		},
	}
	for _, c := range []struct {
		is, source string
		ok         bool
	}{{"n1", "a:1", true}, {"", "a:1", true}, {"n2", "a:1", false}} {
		if err := m.checkSource(calledAs(t, c.is), c.source); (err == nil) != c.ok {
			t.Errorf("from %s, certificate of %q: %v", c.source, c.is, err)
		} else if err != nil && !strings.Contains(err.Error(), "node n1 has the certificate of node n2") {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		name   string
		shards []uint16
		ok     bool
	}{
		{"n2", []uint16{0, 1}, true}, {"n3", []uint16{2}, true}, {"n3", []uint16{0, 2}, false}, {"n9", []uint16{2}, false},
		{"n2", []uint16{7}, false},
	} {
		shards := make(map[uint16]uint32)
		for _, shard := range c.shards {
			shards[shard] = 1
		}
		if got := mayCopy(m.relay.newest, c.name, shards); got != c.ok {
			t.Errorf("%s may copy %v: %v", c.name, c.shards, got)
		}
	}
}
