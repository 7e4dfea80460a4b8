package memory

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// issuer is an authority in a directory, as ca.crt.
type issuer struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, dir: t.TempDir()}
	i.cert, i.key = i.issue("ca", nil, nil)
	return i
}

const gatewayFile = "gateway"

// path is that of a file of the authority.
func (i *issuer) path(name string) string { return filepath.Join(i.dir, name) }

// issue writes the certificate of a common name. That of the authority is signed by itself, and gateways want one
// without a name, as etcd's.
func (i *issuer) issue(name string, signer *x509.Certificate, by *ecdsa.PrivateKey) (
	*x509.Certificate, *ecdsa.PrivateKey) {
	i.t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(i.t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if name == gatewayFile {
		about.Subject.CommonName = ""
	}
	if signer == nil {
		about.IsCA, about.BasicConstraintsValid, about.KeyUsage = true, true, x509.KeyUsageCertSign
		signer, by = about, key
	}
	der := must(x509.CreateCertificate(rand.Reader, about, signer, key.Public(), by))(i.t)
	encoded := must(x509.MarshalECPrivateKey(key))(i.t)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(i.path(file), pem.EncodeToMemory(block), 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
	return must(x509.ParseCertificate(der))(i.t), key
}

// client is the configuration of a client with the certificate of a name.
func (i *issuer) client(name string) *tls.Config {
	i.t.Helper()
	i.issue(name, i.cert, i.key)
	own := must(tls.LoadX509KeyPair(i.path(name+".crt"), i.path(name+".key")))(i.t)
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{own}}
}

// gateways starts the gateways of a keyspace. ca is the file of the authority of clients' certificates.
func (i *issuer) gateways(ca string) (all []*gateway) {
	t := i.t
	i.issue(gatewayFile, i.cert, i.key)
	cert, key := i.path(gatewayFile+".crt"), i.path(gatewayFile+".key")
	clients := serve.TowardsClients{Cert: cert, Key: key, CA: ca}
	peers := serve.TowardsEtcd{CA: i.path("ca.crt"), Cert: cert, Key: key}
	cluster := startChain(t)
	for range 2 {
		s := must(Listen(ServerOptions{
			Listen: "127.0.0.1:0", Clients: clients, PeerCertificates: peers,
			Options: Options{
				Chain: softchain.Connect(t, cluster), LogEntries: 64, LockTTL: time.Minute, Tokens: cheap(t),
				Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			},
		}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		all = append(all, &gateway{Server: s, address: "https://" + s.Addr().String()})
		all[0].waitActive(t)
	}
	return all
}

func openSecure(t *testing.T, g *gateway, config *tls.Config) *clientv3.Client {
	t.Helper()
	c := must(clientv3.New(clientv3.Config{Endpoints: []string{g.address}, TLS: config, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestUserOfCertificate: the common name of a client's certificate is its user, at each gateway, for locks too. JSON's
// calls have none, as etcd's.
func TestUserOfCertificate(t *testing.T) {
	i := newIssuer(t)
	root := i.client("root")
	all := i.gateways(i.path("ca.crt"))
	enableAs(t, openSecure(t, all[0], root))
	for _, g := range all {
		alice, nobody := i.client("alice"), i.client("nobody")
		c, ctx := openSecure(t, g, alice), t.Context()
		again(func() (*clientv3.PutResponse, error) { return c.Put(ctx, "a", "1") })(t)
		if _, err := c.Put(ctx, "b", "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("alice writes a key of others: %v", err)
		}
		must(openSecure(t, g, root).Put(ctx, "b", "1"))(t)
		if _, err := openSecure(t, g, nobody).Get(ctx, "a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("a user that does not exist: %v", err)
		}
		lock := func(name string) error {
			_, err := v3lockpb.NewLockClient(c.ActiveConnection()).Lock(ctx, &v3lockpb.LockRequest{Name: []byte(name)})
			return rpctypes.Error(err)
		}
		if err := lock("a" + g.address); err != nil {
			t.Errorf("alice locks: %v", err)
		}
		if err := lock("b"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("alice locks a name of others: %v", err)
		}
		says := metadata.AppendToOutgoingContext(ctx, userKey, "root", revisionKey, "99")
		if _, err := c.Put(says, "b", "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("alice says that she is root: %v", err)
		}
		web := http.Client{Transport: &http.Transport{TLSClientConfig: root}}
		a := must(web.Post(g.address+"/v3/kv/range", "application/json", strings.NewReader(`{"key":"YQ=="}`)))(t)
		if a.Body.Close(); a.StatusCode == http.StatusOK {
			t.Errorf("JSON has the user of a certificate")
		}
	}
	other := newIssuer(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := openSecure(t, all[0], other.client("root")).Get(ctx, "a"); err == nil {
		t.Error("the certificate of another authority is accepted")
	}
}

// TestUnverifiedCertificate: a gateway that verifies no certificates takes no user from one.
func TestUnverifiedCertificate(t *testing.T) {
	i := newIssuer(t)
	root := i.client("root")
	all := i.gateways("")
	enableAs(t, openSecure(t, all[0], root))
	for _, g := range all {
		c := openSecure(t, g, root)
		if _, err := c.Get(t.Context(), "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("a read: %v", err)
		}
		if _, err := c.Do(t.Context(), clientv3.OpPut("a", "1")); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("a write: %v", err)
		}
	}
}
