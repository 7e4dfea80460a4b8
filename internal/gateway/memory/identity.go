package memory

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"google.golang.org/grpc/metadata"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// Keys of the metadata of calls between gateways: the secret of the keyspace, and the user whose call is forwarded, with its revision.
const (
	secretKey   = "netcraq-memory-secret"
	userKey     = "netcraq-memory-user-bin"
	revisionKey = "netcraq-memory-auth-revision"
)

// rootUser may do everything: etcd keeps it while authentication is enabled.
const rootUser = "root"

// as marks the context of a call that this gateway makes. Its value reports whether the call is the gateway's own; the
// other calls have no user.
type as struct{}

func itself(ctx context.Context) context.Context { return context.WithValue(ctx, as{}, true) }

func unnamed(ctx context.Context) context.Context { return context.WithValue(ctx, as{}, false) }

// proof adds the keyspace's secret to calls of other gateways. It implements [credentials.PerRPCCredentials].
type proof struct{ g *Gateway }

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (p proof) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if secret := p.g.sharedSecret(); len(secret) > 0 {
		return map[string]string{secretKey: hex.EncodeToString(secret)}, nil
	}
	return nil, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]: gateways without TLS prove themselves, too.
func (proof) RequireTransportSecurity() bool { return false }

// sharedSecret is that by which the gateways of the keyspace know each other. It is empty while the keyspace was not
// found, and in one in memory that an earlier version made.
func (g *Gateway) sharedSecret() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.secret
}

// ofGateway reports whether a call is of another gateway of the keyspace.
func (g *Gateway) ofGateway(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	said := md.Get(secretKey)
	if len(said) != 1 {
		return false
	}
	secret, err := hex.DecodeString(said[0])
	own := g.sharedSecret()
	return err == nil && len(own) > 0 && subtle.ConstantTimeCompare(secret, own) == 1
}

// userOf is the user of a call, as etcd finds it: by its token, or else by the name in its certificate. Another
// gateway says whose call it forwards. nil: none.
func (g *Gateway) userOf(ctx context.Context, store auth.AuthStore) (*auth.AuthInfo, error) {
	forItself, marked := ctx.Value(as{}).(bool)
	switch {
	case !store.IsAuthEnabled(), marked && !forItself:
		return nil, nil
	case marked:
		return &auth.AuthInfo{Username: rootUser, Revision: store.Revision()}, nil
	case g.ofGateway(ctx):
		return forwardedUser(ctx), nil
	}
	user, err := store.AuthInfoFromCtx(ctx)
	if user == nil && err == nil && g.o.CertificateNames {
		user = store.AuthInfoFromTLS(ctx)
	}
	return user, err
}

func forwardedUser(ctx context.Context) *auth.AuthInfo {
	md, _ := metadata.FromIncomingContext(ctx)
	name, said := md.Get(userKey), md.Get(revisionKey)
	if len(name) != 1 || len(said) != 1 {
		return nil
	}
	revision, err := strconv.ParseUint(said[0], 10, 64)
	if err != nil {
		return nil
	}
	return &auth.AuthInfo{Username: name[0], Revision: revision}
}

// forward prepares a call to the active gateway, which gets to know the user. It does not forward the call again.
func (g *Gateway) forward(ctx context.Context) (context.Context, error) {
	ctx, err := g.naming(ctx)
	return metadata.AppendToOutgoingContext(ctx, forwarded, "1"), err
}

// naming names the user of a call in the metadata for another gateway.
func (g *Gateway) naming(ctx context.Context) (context.Context, error) {
	user, err := g.userOf(ctx, g.current().Auth())
	if err != nil {
		return ctx, rpcError(err)
	}
	if user == nil {
		return ctx, nil
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	if md == nil {
		md = make(metadata.MD)
	}
	md.Set(userKey, user.Username)
	md.Set(revisionKey, strconv.FormatUint(user.Revision, 10))
	return metadata.NewOutgoingContext(ctx, md), nil
}

// sign names the user in a command.
func (g *Gateway) sign(ctx context.Context, command *pb.InternalRaftRequest) error {
	user, err := g.userOf(ctx, g.current().Auth())
	if user != nil {
		command.Header = &pb.RequestHeader{Username: user.Username, AuthRevision: user.Revision}
	}
	return err
}

// settle waits, before a call with a token that this gateway does not know, or before it knows of users, until the
// gateway has all that was acknowledged before: another gateway may have given the token just now.
func (g *Gateway) settle(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md[rpctypes.TokenFieldNameGRPC])+len(md[rpctypes.TokenFieldNameSwagger]) == 0 {
		return
	}
	store := g.current().Auth()
	_, err := g.userOf(ctx, store)
	if store.IsAuthEnabled() && (g.o.Tokens.Signed() || !errors.Is(err, auth.ErrInvalidAuthToken)) {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if g.disk != nil {
		_ = g.readOnDisk(waiting) // the call finds out what is wrong
		return
	}
	for ends := g.ends.Load(); waiting.Err() == nil && g.where().lead == nil && g.ends.Load() < ends+2; {
		pause(waiting, nil, pollEvery)
	}
}

// permission is a check of the user of a call. user is never nil.
type permission func(space *keyspace.Keyspace, user *auth.AuthInfo) error

// anybody is the permission of calls that need none. A token that is not known is refused all the same.
func anybody(*keyspace.Keyspace, *auth.AuthInfo) error { return nil }

// someUser is the permission of calls that need a user.
func someUser(_ *keyspace.Keyspace, user *auth.AuthInfo) error {
	if user.Username == "" {
		return auth.ErrUserEmpty
	}
	return nil
}

// administrator is the permission of calls that need the role root.
func administrator(space *keyspace.Keyspace, user *auth.AuthInfo) error {
	return space.Auth().IsAdminPermitted(user)
}

// permitted looks into a copy of the keyspace if the user may. The permission is that of the state that is read, as in
// etcd: if users change meanwhile, the client is told to try again.
func permitted[A any](ctx context.Context, g *Gateway, check permission,
	look func(*keyspace.Keyspace) (A, error)) func(*keyspace.Keyspace) (A, error) {
	return func(space *keyspace.Keyspace) (none A, err error) {
		store := space.Auth()
		if !store.IsAuthEnabled() {
			if a, err := look(space); !store.IsAuthEnabled() {
				return a, err
			} // else it may have what was written after authentication was enabled
		}
		user, err := g.userOf(ctx, store)
		if err != nil {
			return none, err
		}
		if user == nil {
			user = new(auth.AuthInfo)
		}
		if err := check(space, user); err != nil {
			return none, err
		}
		a, err := look(space)
		if user.Revision != 0 && user.Revision != store.Revision() {
			return none, auth.ErrAuthOldRevision
		}
		return a, err
	}
}

// admit checks the user of a call that looks at a copy of the keyspace at more than one moment.
func (g *Gateway) admit(ctx context.Context, space *keyspace.Keyspace, check permission) error {
	_, err := permitted(ctx, g, check, func(*keyspace.Keyspace) (struct{}, error) { return struct{}{}, nil })(space)
	return rpcError(err)
}
