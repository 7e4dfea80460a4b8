package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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

// encryption is the encryption that an endpoint's URL requests, as etcd's own clients interpret it.
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
	if scheme, file, _ := strings.Cut(s, ":"); scheme == "unix" || scheme == "unixs" {
		return unixEndpoint(scheme, strings.TrimPrefix(file, "//")), nil
	}
	text := s
	if !strings.Contains(s, "://") {
		text = "//" + s
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("endpoint %q is not a URL: %w", s, err)
	}
	var e endpoint
	switch u.Scheme {
	case "http":
		e.encryption = never
	case "https":
		e.encryption = always
	}
	switch u.Scheme {
	case "", "http", "https":
		e.network, e.address, e.name, e.url = "tcp", u.Host, u.Hostname(), u.Host
		if u.Port() == "" {
			return endpoint{}, fmt.Errorf("endpoint %q has no port: etcd's is usually 2379", s)
		}
	default:
		return endpoint{}, fmt.Errorf("endpoint %q: want host:port, http://, https://, unix:// or unixs://", s)
	}
	return e, nil
}

// unixEndpoint is the endpoint of a socket's file. Its path may be relative, and need not be a part of a URL. As with
// etcd's own clients, the file's name up to a colon is the name in the certificate.
func unixEndpoint(scheme, file string) endpoint {
	e := endpoint{network: "unix", address: file}
	e.name, _, _ = strings.Cut(path.Base(file), ":")
	if scheme == "unixs" {
		e.encryption = always
	}
	return e
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

// upstream is the connections to etcd's members.
type upstream struct {
	*grpc.ClientConn
	resolver  *manual.Resolver
	mu        sync.Mutex
	endpoints []endpoint
}

// addresses returns the members as a state of the resolver.
func addresses(endpoints []endpoint) resolver.State {
	var state resolver.State
	for _, e := range endpoints {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: e.network + ":" + e.address, ServerName: e.name})
	}
	return state
}

// Windows of flow control towards etcd. They do not grow with the traffic: callWindow is what an answer takes of the
// gateway's memory before it is received.
const (
	callWindow = 128 << 10
	connWindow = 16 << 20
)

// dial connects to etcd, as soon and as often as members are there. Calls wait for a member, at most for a time.
func dial(endpoints []endpoint, secure *tls.Config, k KeepAlive, within time.Duration) (*upstream, error) {
	const scheme = "etcd-gateway"
	u := &upstream{resolver: manual.NewBuilderWithScheme(scheme), endpoints: endpoints}
	creds := insecure.NewCredentials()
	for i, e := range endpoints {
		switch encrypt := e.secured(secure); {
		case encrypt != endpoints[0].secured(secure):
			return nil, fmt.Errorf("endpoint %d is encrypted and the first is not, or the other way round: give all the same scheme", i+1)
		case encrypt:
			creds = credentials.NewTLS(cmp.Or(secure, &tls.Config{MinVersion: tls.VersionTLS12}))
		}
	}
	u.resolver.InitialState(addresses(endpoints))
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithResolvers(u.resolver), grpc.WithDefaultServiceConfig(balance),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			network, address, _ := strings.Cut(address, ":")
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		grpc.WithStaticStreamWindowSize(callWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 3 * time.Second}),
	}
	options = append(options, whenReady(within)...)
	if k.Time > 0 {
		options = append(options, grpc.WithKeepaliveParams(k.client()))
	}
	var err error
	u.ClientConn, err = grpc.NewClient(scheme+":///etcd", options...)
	return u, err
}

// members are those that calls go to now.
func (u *upstream) members() []endpoint {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.endpoints
}

// track updates the members from etcd's member list.
func (u *upstream) track(ctx context.Context, every time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := u.sync(ctx, log); err != nil && ctx.Err() == nil {
			log.Warn("etcd's member list cannot be followed", "error", err)
		}
	}
}

// sync takes the members from etcd, once. A learner answers no reads, so it is left out; so is a member that has not started, which has no
// URLs.
func (u *upstream) sync(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	list, err := pb.NewClusterClient(u.ClientConn).MemberList(ctx, &pb.MemberListRequest{})
	if err != nil {
		return err
	}
	var urls []string
	for _, m := range list.Members {
		if !m.IsLearner {
			urls = append(urls, m.ClientURLs...)
		}
	}
	slices.Sort(urls)
	next, err := parseEndpoints(slices.Compact(urls))
	if err != nil {
		return err
	}
	u.mu.Lock()
	changed := !slices.Equal(next, u.endpoints)
	u.endpoints = next
	u.mu.Unlock()
	if changed {
		u.resolver.UpdateState(addresses(next))
		log.Info("etcd's members changed", "endpoints", urls)
	}
	return nil
}

// syncTimeout is how long etcd may take to tell its members.
const syncTimeout = 5 * time.Second
