package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// endpoint is one member of etcd, as its URL names it.
type endpoint struct {
	network, address string
	name             string // that its certificate must have
	encryption       encryption
	url              string // of its pages on HTTP; empty on a Unix socket
}

// encryption says what an endpoint's URL wants, as etcd's own clients read it.
type encryption uint8

const (
	asConfigured encryption = iota // host:port, unix://: encrypted if there is a certificate or an authority
	never                          // http://
	always                         // https://, unixs://
)

// secured reports whether connections to an endpoint are encrypted.
func (e *endpoint) secured(config *tls.Config) bool {
	return e.encryption == always || e.encryption == asConfigured && config != nil
}

// parseEndpoint reads host:port, http://, https://, unix:// or unixs://.
func parseEndpoint(s string) (endpoint, error) {
	if !strings.Contains(s, "://") {
		if strings.HasPrefix(s, "unix:") {
			p := strings.TrimPrefix(s, "unix:")
			return endpoint{network: "unix", address: p, name: path.Base(p)}, nil
		}
		s = "//" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return endpoint{}, fmt.Errorf("endpoint %q is not a URL: %w", s, err)
	}
	var e endpoint
	switch u.Scheme {
	case "http":
		e.encryption = never
	case "https", "unixs":
		e.encryption = always
	}
	switch u.Scheme {
	case "", "http", "https":
		e.network, e.address, e.name, e.url = "tcp", u.Host, u.Hostname(), u.Host
		if u.Port() == "" {
			return endpoint{}, fmt.Errorf("endpoint %q has no port: etcd's is usually 2379", s)
		}
	case "unix", "unixs":
		e.network, e.address, e.name = "unix", u.Host+u.Path, u.Hostname()
	default:
		return endpoint{}, fmt.Errorf("endpoint %q: want host:port, http://, https://, unix:// or unixs://", s)
	}
	return e, nil
}

func parseEndpoints(list []string) ([]endpoint, error) {
	if len(list) == 0 {
		return nil, errors.New("no endpoint of etcd is given: name some with --etcd-endpoints")
	}
	var endpoints []endpoint
	for _, s := range list {
		e, err := parseEndpoint(s)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

// balance spreads calls over the members that are connected.
const balance = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// dial connects to etcd, as soon and as often as members are there.
func dial(endpoints []endpoint, secure *tls.Config, k KeepAlive) (*grpc.ClientConn, error) {
	const scheme = "etcd-gateway"
	r := manual.NewBuilderWithScheme(scheme)
	var state resolver.State
	creds := insecure.NewCredentials()
	for i, e := range endpoints {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: e.network + ":" + e.address, ServerName: e.name})
		switch encrypt := e.secured(secure); {
		case encrypt != endpoints[0].secured(secure):
			return nil, fmt.Errorf("endpoint %d is encrypted and the first is not, or the other way round: give all the same scheme", i+1)
		case encrypt:
			creds = credentials.NewTLS(cmp.Or(secure, &tls.Config{MinVersion: tls.VersionTLS12}))
		}
	}
	r.InitialState(state)
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(balance), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			network, address, _ := strings.Cut(address, ":")
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 3 * time.Second}),
	}
	if k.Time > 0 {
		options = append(options, grpc.WithKeepaliveParams(k.client()))
	}
	return grpc.NewClient(scheme+":///etcd", options...)
}
