package member

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// certificate makes a certificate for servers and clients, which certifies itself. It names the user root.
func certificate(t *testing.T) *transport.TLSInfo {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := &transport.TLSInfo{
		CertFile: file("cert", "CERTIFICATE", cert), KeyFile: file("key", "PRIVATE KEY", secret), ClientCertAuth: true,
	}
	info.TrustedCAFile = info.CertFile
	return info
}

// address is where the member serves clients.
func (m *loneMember) address(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(m.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// dial connects by gRPC until the test ends. nil: without TLS.
func (m *loneMember) dial(t *testing.T, secure *tls.Config) *grpc.ClientConn {
	t.Helper()
	c := insecure.NewCredentials()
	if secure != nil {
		c = credentials.NewTLS(secure)
	}
	conn, err := grpc.NewClient(m.address(t), grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pings pings one time after the other, and says how the server ends that.
func (m *loneMember) pings(t *testing.T) string {
	t.Helper()
	n, err := net.Dial("tcp", m.address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if c := m.ClientTLS(); c != nil {
		c.NextProtos, c.ServerName = []string{"h2"}, "127.0.0.1"
		n = tls.Client(n, c)
	}
	if err := n.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(n, http2.ClientPreface)
	f := http2.NewFramer(n, n)
	if err == nil {
		err = f.WriteSettings()
	}
	const most = 8
	for sent := 1; err == nil && sent <= most; sent++ {
		if err = f.WritePing(false, [8]byte{byte(sent)}); err != nil {
			break
		}
		for acknowledged := false; !acknowledged && err == nil; {
			var frame http2.Frame
			switch frame, err = f.ReadFrame(); a := frame.(type) {
			case *http2.PingFrame:
				acknowledged = a.IsAck() && a.Data[0] == byte(sent)
			case *http2.GoAwayFrame:
				return fmt.Sprintf("ended with %v: %s", a.ErrCode, a.DebugData())
			}
		}
	}
	if err != nil {
		t.Errorf("pings: %v", err)
	}
	return "no limit"
}

// authenticate has a certificate stand for a user, and notes what clients are told.
func (m *loneMember) authenticate(t *testing.T, answers map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	auth := pb.NewAuthClient(m.dial(t, m.ClientTLS()))
	_, errs := auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: "root"})
	note := func(name string, err error) { answers[name] = fmt.Sprint(status.Code(err), ": ", err) }
	note("role", errs)
	_, err := auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Options: &authpb.UserAddOptions{NoPassword: true}})
	note("user", err)
	_, err = auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"})
	note("grant", err)
	_, err = auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
	note("enable", err)
	kv := pb.NewKVClient(m.dial(t, m.ClientTLS()))
	_, err = kv.Range(ctx, &pb.RangeRequest{Key: []byte("k")})
	note("by certificate", err)
	_, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("k")})
	note("put by certificate", err)
	_, err = kv.Range(metadata.AppendToOutgoingContext(ctx, "token", "wrong"), &pb.RangeRequest{Key: []byte("k")})
	note("wrong token beside a certificate", err)
	none := m.ClientTLS()
	none.Certificates, none.GetClientCertificate = nil, nil
	_, err = pb.NewKVClient(m.dial(t, none)).Range(ctx, &pb.RangeRequest{Key: []byte("k")})
	answers["no certificate"] = status.Code(err).String()
}

// TestSecureConnectionsAreServed: the front serves connections with TLS too, and ends them.
func TestSecureConnectionsAreServed(t *testing.T) {
	f := NewFront()
	m := lone(t, f, certificate(t))
	put(t, m.Member, "k", "v")
	get(t, m.Member, "k")
	if f.Fast() == 0 {
		t.Error("no read was fast")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Stop(ctx)
	short, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if _, err := m.Client.Get(short, "k"); err == nil {
		t.Error("answered after the front's stop: etcd's server has the connection")
	}
}

// scarce is a listener that lacks descriptors once.
type scarce struct {
	net.Listener
	once sync.Once
}

func (s *scarce) Accept() (n net.Conn, err error) {
	s.once.Do(func() { err = os.NewSyscallError("accept4", syscall.EMFILE) })
	if err != nil {
		return nil, err
	}
	return s.Listener.Accept()
}

// TestListenersOutliveShortages: etcd's listener of TLS, which ends at any error, hears of no lack of descriptors.
func TestListenersOutliveShortages(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	info := certificate(t)
	p, err := NewFront().newPicker(&scarce{Listener: l}, info, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	others, err := transport.NewTLSListener(p, info)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	config, err := info.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName, config.NextProtos = "127.0.0.1", []string{"http/1.1"}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			t.Error(err)
			return
		}
		n.Close()
	}()
	n, err := others.Accept()
	if err != nil {
		t.Fatalf("after the shortage: %v", err)
	}
	<-ended
	n.Close()
}

// sent is a connection from which given bytes come, and then nothing.
type sent struct {
	net.Conn
	*bytes.Reader
}

func (s sent) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// TestHello: what a client offers is known, and nothing of what was read gets lost.
func TestHello(t *testing.T) {
	for _, offer := range [][]string{nil, {"h2"}, {"h2", "http/1.1"}, {"grpc-exp", "h2"}} {
		client, server := net.Pipe()
		go func() {
			_ = tls.Client(client, &tls.Config{NextProtos: offer, InsecureSkipVerify: true}).Handshake() // it gets no answer
		}()
		offered, read := hello(server)
		client.Close()
		server.Close()
		if !slices.Equal(offered, offer) {
			t.Errorf("%v are taken for %v", offer, offered)
		}
		if again, _ := hello(&replayed{sent{Reader: bytes.NewReader(nil)}, read}); !slices.Equal(again, offer) {
			t.Errorf("%v become %v when they are read again", offer, again)
		}
	}
}

// FuzzHello: whatever comes is kept, and passed on as it was.
func FuzzHello(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := sent{Reader: bytes.NewReader(data)}
		_, read := hello(s)
		all, err := io.ReadAll(&replayed{s, read})
		if err != nil || !bytes.Equal(all, data) {
			t.Errorf("%q has become %q, error %v", data, all, err)
		}
	})
}
