package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestSwitchFlags: what cannot work is refused at once.
func TestSwitchFlags(t *testing.T) {
	enginetest.Need(t)
	many := strings.Split(strings.Repeat("--port-if lo ", 13), " ")[:26]
	for want, args := range map[string][]string{
		"give --identity":       {"--listen", "192.0.2.1:9559"},
		"not on loopback":       {"--listen", ":9559"},
		"--listen \"nowhere\"":  {"--listen", "nowhere"},
		"from 1 on":             {"--device", "0"},
		"nonesuch":              {"--port-if", "nonesuch"},
		"a switch has 12 ports": many,
		"netcraq certs make":    {"--identity", "nowhere"},
		"address already in use: name another address with --listen": {"--listen", taken(t)},
		"unknown command \"now\"":                                    {"now"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := clitest.Execute(ctx, newSwitchCommand(), args...)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestSwitchRoles: a switch with an identity serves certificates of the cluster only, and readers change nothing.
func TestSwitchRoles(t *testing.T) {
	enginetest.Need(t)
	const host = "127.35.0.2"
	dir := filepath.Join(t.TempDir(), "certs")
	if err := security.Make(dir, []string{host}, time.Hour); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, _, err := clitest.Execute(serving, newSwitchCommand(), "--listen", host+":9559", "--device", "3",
			"--identity", filepath.Join(dir, "controller"))
		done <- err
	}()
	for role, want := range map[string]codes.Code{"node": codes.OK, "admin": codes.OK, "reader": codes.PermissionDenied,
		"operator": codes.PermissionDenied} {
		c := switchClient(t, host+":9559", credentials.NewTLS(tlsOf(t, filepath.Join(dir, role))))
		if _, err := c.Capabilities(ctx, new(p4v1.CapabilitiesRequest), grpc.WaitForReady(true)); err != nil {
			t.Fatal(role, err)
		}
		if code := arbitrated(ctx, t, c); code != want {
			t.Errorf("%s: a stream has the code %v, want %v", role, code, want)
		}
		_, err := c.Write(ctx, &p4v1.WriteRequest{DeviceId: 4})
		if want == codes.OK {
			want = codes.NotFound
		}
		if status.Code(err) != want {
			t.Errorf("%s: a write has %v, want %v", role, err, want)
		}
	}
	patience := map[string]time.Duration{"node": time.Minute, "reader": time.Minute, "": time.Second} // it waits for another switch
	for role, want := range map[string]string{"node": "", "reader": "may not", "": "this node's --identity"} {
		var identity *security.Identity
		if role != "" {
			var err error
			if identity, err = security.Load(filepath.Join(dir, role)); err != nil {
				t.Fatal(err)
			}
		}
		within, cancel := context.WithTimeout(ctx, patience[role])
		sw, err := cli.DialSwitch(within, host+":9559", 3, identity)
		cancel()
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
			t.Errorf("%s: a node's switch has %v, want %q", role, err, want)
		}
		if err == nil {
			if err := sw.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	c := switchClient(t, host+":9559", insecure.NewCredentials())
	if _, err := c.Capabilities(ctx, new(p4v1.CapabilitiesRequest)); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// arbitrated opens a stream and returns how its election went.
func arbitrated(ctx context.Context, t *testing.T, c p4v1.P4RuntimeClient) codes.Code {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := c.StreamChannel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := &p4v1.Uint128{Low: uint64(time.Now().UnixNano())}
	_ = stream.Send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{ // Recv has the error
		Arbitration: &p4v1.MasterArbitrationUpdate{DeviceId: 3, ElectionId: id},
	}})
	m, err := stream.Recv()
	if err != nil {
		return status.Code(err)
	}
	return codes.Code(m.GetArbitration().GetStatus().GetCode())
}

func switchClient(t *testing.T, address string, c credentials.TransportCredentials) p4v1.P4RuntimeClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p4v1.NewP4RuntimeClient(conn)
}

// tlsOf returns the TLS configuration that another vendor's controller makes of an identity.
func tlsOf(t *testing.T, dir string) *tls.Config {
	t.Helper()
	cert, key, authority := security.Files(dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal(fmt.Errorf("%s holds no certificate", authority))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}
}

// taken is an address that has a listener.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.35.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
