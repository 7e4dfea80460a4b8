package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// DialOption secures connections to controllers and agents.
func (i *Identity) DialOption() grpc.DialOption {
	if i == nil {
		return grpc.WithCredentialsBundle(insecure.NewBundle())
	}
	transport := credentials.NewTLS(&tls.Config{
		MinVersion:           tls.VersionTLS13,
		InsecureSkipVerify:   true, // VerifyConnection verifies the certificate and its role, checkName its names
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.pair() },
		VerifyConnection:     i.verifyServer,
	})
	return grpc.WithCredentialsBundle(&bundle{i, named{transport}})
}

// ServerOptions secure a server, check the role of each caller, and log the calls that change something. others are the
// calls of services that are not the cluster's own.
func (i *Identity) ServerOptions(log *slog.Logger, others ...Calls) []grpc.ServerOption {
	if i == nil {
		return []grpc.ServerOption{audit(log)}
	}
	return []grpc.ServerOption{
		audit(log), // before the checks, to log what they refuse
		grpc.Creds(credentials.NewTLS(i.ServerTLS())),
		grpc.ChainUnaryInterceptor(i.checkUnary(others)),
		grpc.ChainStreamInterceptor(i.checkStream(others)),
	}
}

// ServerTLS is the configuration of a server that takes the cluster's certificates, of all roles.
func (i *Identity) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		ClientAuth:       tls.RequireAnyClientCert, // VerifyConnection verifies it, to count why one is refused
		GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.pair() },
		VerifyConnection: i.verifyClient,
		// A resumed connection would not be verified against certificates of today.
		SessionTicketsDisabled: true,
	}
}

// Guard judges the certificate of each request to a server with [Identity.ServerTLS]: connections last longer than
// certificates.
func (i *Identity) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			http.Error(w, "the connection is not secured", http.StatusForbidden)
			return
		}
		if _, err := i.clientRole(*r.TLS); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (i *Identity) pair() (*tls.Certificate, error) {
	l, err := i.current()
	if err != nil {
		return nil, err
	}
	return &l.pair, nil
}

func (i *Identity) verifyServer(state tls.ConnectionState) error {
	role, err := i.roleOf(state)
	if err != nil {
		return err
	}
	if !role.serves() {
		return fmt.Errorf("the server has the role %s, which serves nothing", role)
	}
	return nil
}

func (i *Identity) verifyClient(state tls.ConnectionState) error {
	_, err := i.clientRole(state)
	return err
}

// clientRole returns the role of a client that connects, and counts refusals.
func (i *Identity) clientRole(state tls.ConnectionState) (Role, error) {
	role, err := i.roleOf(state)
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
	case errors.Is(err, ErrRevoked):
		i.refusals.Revoked.Add(1)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		i.refusals.Expired.Add(1)
	default:
		i.refusals.Stranger.Add(1)
	}
	return role, err
}

func (i *Identity) roleOf(state tls.ConnectionState) (Role, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errors.New("no certificate")
	}
	l, err := i.current()
	if err != nil {
		return "", err
	}
	return l.judge(state.PeerCertificates[0])
}

// check judges one call. The certificate is judged again, because connections last longer than certificates.
func (i *Identity) check(ctx context.Context, others []Calls, method string, request any) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "nobody is known to be calling")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return status.Error(codes.Unauthenticated, "the connection is not secured")
	}
	role, err := i.clientRole(info.State)
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	if !may(role, method, request, others) {
		i.refusals.Role.Add(1)
		return status.Errorf(codes.PermissionDenied,
			"a certificate with the role %s may not do this (%s): use one with another role", role, method)
	}
	return nil
}

// peerCertificate returns the certificate of the other side of a call; nil: it has none.
func peerCertificate(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0]
}

// RoleOf returns the role of the caller that an [Identity] has checked; empty without security.
func RoleOf(ctx context.Context) Role {
	cert := peerCertificate(ctx)
	if cert == nil {
		return ""
	}
	role, err := parseRole(cert.Subject.OrganizationalUnit)
	if err != nil {
		return ""
	}
	return role
}

func (i *Identity) checkUnary(others []Calls) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := i.check(ctx, others, info.FullMethod, request); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

func (i *Identity) checkStream(others []Calls) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := i.check(stream.Context(), others, info.FullMethod, nil); err != nil {
			return err
		}
		return next(server, stream)
	}
}
