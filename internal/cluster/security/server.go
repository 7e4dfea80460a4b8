package security

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
)

// servers are the roles that may answer the calls of each service. An agent passes maps on.
var servers = map[string][]Role{
	"/" + agentv1.Agent_ServiceDesc.ServiceName:           {Node},
	"/" + controllerv1.Controller_ServiceDesc.ServiceName: {Controller},
	"/p4.v1.P4Runtime": {Node, Controller}, // a switch has one of their identities
}

// mayServe reports whether a role may answer a call.
func mayServe(role Role, method string) bool {
	if method == controllerv1.Controller_Map_FullMethodName && role == Node {
		return true
	}
	for service, roles := range servers {
		if len(method) > len(service) && method[:len(service)+1] == service+"/" {
			return slices.Contains(roles, role)
		}
	}
	return false
}

// bundle secures the connections of a client, and checks before each call that the server has the role for it.
type bundle struct {
	identity  *Identity
	transport credentials.TransportCredentials
}

func (b *bundle) TransportCredentials() credentials.TransportCredentials { return b.transport }
func (b *bundle) PerRPCCredentials() credentials.PerRPCCredentials       { return b }
func (b *bundle) NewWithMode(string) (credentials.Bundle, error)         { return b, nil }
func (b *bundle) RequireTransportSecurity() bool                         { return true }

// GetRequestMetadata implements [credentials.PerRPCCredentials]: it judges the server once more, as connections last longer
// than certificates, and adds nothing to the call.
func (b *bundle) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	call, ok := credentials.RequestInfoFromContext(ctx)
	info, secured := call.AuthInfo.(credentials.TLSInfo)
	if !ok || !secured {
		return nil, status.Error(codes.Unauthenticated, "the connection is not secured")
	}
	role, err := b.identity.roleOf(info.State)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "the server's certificate: %v", err)
	}
	if !mayServe(role, call.Method) {
		return nil, status.Errorf(codes.PermissionDenied, "the server has the role %s, which does not answer %s: "+
			"is it the address of another program?", role, call.Method)
	}
	return nil, nil
}

// named is the transport of a client that compares the server's address with the names in its certificate.
type named struct {
	credentials.TransportCredentials
}

// ClientHandshake implements [credentials.TransportCredentials].
func (n named) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, auth, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	if info, ok := auth.(credentials.TLSInfo); ok {
		if err := checkName(info.State.PeerCertificates[0], authority); err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	return conn, auth, nil
}

// Clone implements [credentials.TransportCredentials].
func (n named) Clone() credentials.TransportCredentials { return named{n.TransportCredentials.Clone()} }

// checkName compares the host that was dialled with the names in a certificate, if there are any: a certificate for all nodes
// has none, since nodes may move.
func checkName(cert *x509.Certificate, authority string) error {
	if len(cert.DNSNames) == 0 && len(cert.IPAddresses) == 0 {
		return nil
	}
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	if err := cert.VerifyHostname(host); err != nil {
		return fmt.Errorf("%w: renew it with `netcraq certs renew DIRECTORY --controllers ADDRESSES`", err)
	}
	return nil
}
