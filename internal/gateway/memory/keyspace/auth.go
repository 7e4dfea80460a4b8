package keyspace

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	etcdapply "go.etcd.io/etcd/server/v3/etcdserver/apply"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Users, roles and permissions are etcd's, in the buckets where etcd has them. Each change is a command. Tokens are not
// part of the state: each gateway notes those that the log has given, as long as it has this copy of the keyspace.

// Tokens says how tokens and the hashes of passwords are made. The zero value is etcd's default.
type Tokens struct {
	signed auth.TokenProvider // nil: simple tokens
	ttl    time.Duration      // of a simple token that is not used
	cost   int                // of the hash of a password
}

// NewTokens takes the values of etcd's flags --auth-token, --auth-token-ttl and --bcrypt-cost.
func NewTokens(kind string, ttl time.Duration, cost int) (Tokens, error) {
	t := Tokens{ttl: ttl, cost: cost}
	provider, err := auth.NewTokenProvider(quiet, kind, applied, ttl)
	if err == nil && kind != simpleTokens {
		t.signed = provider
	}
	return t, err
}

const simpleTokens = "simple"

// Signed reports whether tokens are signed, so that every gateway knows them.
func (t Tokens) Signed() bool { return t.signed != nil }

// open makes the store of users, which is in a heap.
func (t Tokens) open(contents *heap) (auth.AuthStore, error) {
	provider := t.signed
	if provider == nil {
		var err error
		if provider, err = auth.NewTokenProvider(quiet, simpleTokens, applied, t.ttl); err != nil {
			return nil, err
		}
	}
	return auth.NewAuthStore(quiet, users{schema.NewAuthBackend(quiet, contents)}, provider, t.cost), nil
}

// applied is etcd's wait for the entry of its log that gave a token. Gateways wait before they look for one.
func applied(uint64) <-chan struct{} { return done() }

// users is etcd's buckets of users. Readers take no writer's lock.
type users struct{ auth.AuthBackend }

// GetAllRoles implements [auth.AuthBackend].
func (u users) GetAllRoles() []*authpb.Role {
	tx := u.ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	return tx.UnsafeGetAllRoles()
}

// Auth is the users and roles, to look at.
func (k *Keyspace) Auth() auth.AuthStore { return k.auth }

// permit makes etcd's checks of the user of a command. They hold at every gateway: a command's user and the revision at
// which the user was known are part of it.
func (k *Keyspace) permit(r *pb.InternalRaftRequest) error {
	if !k.auth.IsAuthEnabled() {
		return nil
	}
	user := &auth.AuthInfo{Username: r.GetHeader().GetUsername(), Revision: r.GetHeader().GetAuthRevision()}
	switch {
	case r.Authenticate != nil && user.Revision != k.auth.Revision(): // the password may be another one since
		return auth.ErrAuthOldRevision
	case r.Authenticate != nil:
		return nil
	case r.Txn != nil:
		return k.PermitTxn(user, r.Txn)
	case r.Put != nil:
		return k.permitOp(user, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r.Put}})
	case r.DeleteRange != nil:
		return k.permitOp(user, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r.DeleteRange}})
	case r.LeaseGrant != nil && user.Username == "", r.LeaseRevoke != nil && user.Username == "":
		return auth.ErrUserEmpty
	case r.LeaseGrant != nil:
		return nil
	case r.LeaseRevoke != nil:
		return k.PermitLease(user, r.LeaseRevoke.ID, k.auth.IsPutPermitted)
	}
	return k.auth.IsAdminPermitted(user)
}

// PermitTxn checks whether a user may do all that a transaction may do.
func (k *Keyspace) PermitTxn(user *auth.AuthInfo, q *pb.TxnRequest) error {
	return etcdapply.CheckTxnAuth(k.auth, user, k.leases, q)
}

func (k *Keyspace) permitOp(user *auth.AuthInfo, op *pb.RequestOp) error {
	return k.PermitTxn(user, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
}

// PermitLease checks all keys of a lease. An administrator may use each lease.
func (k *Keyspace) PermitLease(user *auth.AuthInfo, id int64, check func(*auth.AuthInfo, []byte) error) error {
	l := k.leases.Lookup(lease.LeaseID(id))
	if l == nil || k.auth.IsAdminPermitted(user) == nil {
		return nil
	}
	for _, key := range l.Keys() {
		if err := check(user, []byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// HasPassword reports whether a request about users has a password. The log has hashes only: each gateway would make
// another one.
func HasPassword(r *pb.InternalRaftRequest) bool {
	return r.AuthUserAdd.GetPassword() != "" || r.AuthUserChangePassword.GetPassword() != "" ||
		r.Authenticate.GetPassword() != ""
}

// ChangesUsers reports whether a command is one about users, roles and permissions.
func ChangesUsers(r *pb.InternalRaftRequest) bool {
	return r.AuthEnable != nil || r.AuthDisable != nil || r.AuthUserAdd != nil || r.AuthUserDelete != nil ||
		r.AuthUserChangePassword != nil || r.AuthUserGrantRole != nil || r.AuthUserRevokeRole != nil ||
		r.AuthRoleAdd != nil || r.AuthRoleDelete != nil || r.AuthRoleGrantPermission != nil ||
		r.AuthRoleRevokePermission != nil
}

// changeUsers executes a command about users.
func (k *Keyspace) changeUsers(r *pb.InternalRaftRequest) (proto.Message, error) {
	if HasPassword(r) {
		return nil, errUnknown
	}
	switch {
	case r.AuthEnable != nil:
		return k.headed(new(pb.AuthEnableResponse), k.auth.AuthEnable())
	case r.AuthDisable != nil:
		k.auth.AuthDisable()
		return k.headed(new(pb.AuthDisableResponse), nil)
	case r.AuthUserAdd != nil:
		return k.headed(k.auth.UserAdd(r.AuthUserAdd))
	case r.AuthUserDelete != nil:
		return k.headed(k.auth.UserDelete(r.AuthUserDelete))
	case r.AuthUserChangePassword != nil:
		return k.headed(k.auth.UserChangePassword(r.AuthUserChangePassword))
	case r.AuthUserGrantRole != nil:
		return k.headed(k.auth.UserGrantRole(r.AuthUserGrantRole))
	case r.AuthUserRevokeRole != nil:
		return k.headed(k.auth.UserRevokeRole(r.AuthUserRevokeRole))
	case r.AuthRoleAdd != nil:
		return k.headed(k.auth.RoleAdd(r.AuthRoleAdd))
	case r.AuthRoleDelete != nil:
		return k.headed(k.auth.RoleDelete(r.AuthRoleDelete))
	case r.AuthRoleGrantPermission != nil:
		return k.headed(k.auth.RoleGrantPermission(r.AuthRoleGrantPermission))
	case r.AuthRoleRevokePermission != nil:
		return k.headed(k.auth.RoleRevokePermission(r.AuthRoleRevokePermission))
	case r.Authenticate != nil:
		return k.headed(k.assign(r.Authenticate))
	}
	return nil, errUnknown
}

func (k *Keyspace) headed(a proto.Message, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	k.Head(a)
	return a, nil
}

// Head gives a response of etcd's API its header.
func (k *Keyspace) Head(a proto.Message) {
	m := a.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("header"), protoreflect.ValueOfMessage(k.header().ProtoReflect()))
}

// firstIndex ends all tokens: etcd has the index of an entry there.
const firstIndex = uint64(0)

// assign notes the token that a command gives a user.
func (k *Keyspace) assign(q *pb.InternalAuthenticateRequest) (*pb.AuthenticateResponse, error) {
	known, err := k.auth.AuthInfoFromCtx(metadata.NewIncomingContext(context.Background(),
		metadata.Pairs(rpctypes.TokenFieldNameGRPC, q.SimpleToken+".0")))
	if known != nil && err == nil { // etcd's store would panic
		return nil, auth.ErrAuthFailed
	}
	ctx := context.WithValue(context.Background(), auth.AuthenticateParamIndex{}, firstIndex)
	ctx = context.WithValue(ctx, auth.AuthenticateParamSimpleTokenPrefix{}, q.SimpleToken)
	return k.auth.Authenticate(ctx, q.Name, "")
}
