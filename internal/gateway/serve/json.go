package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/tmc/grpc-websocket-proxy/wsproxy"
	etcdgw "go.etcd.io/etcd/api/v3/etcdserverpb/gw"
	electiongw "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb/gw"
	lockgw "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb/gw"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// maxAnswerBytes bounds one message of an answer in JSON.
const maxAnswerBytes = 64 << 20

// AddJSON serves etcd's calls as JSON, as etcd does. They are made on conn. memory bounds the requests.
func AddJSON(ctx context.Context, mux *http.ServeMux, conn *grpc.ClientConn, maxRequestBytes int,
	memory *grpcserver.Memory) error {
	calls, err := jsonCalls(ctx, conn)
	if err != nil {
		return err
	}
	limited := newBodyLimit(calls, maxRequestBytes, memory)
	mux.Handle("/v3/", limited)
	mux.Handle("/v3beta/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.Replace(r.URL.Path, "/v3beta/", "/v3/", 1)
		limited.ServeHTTP(w, r)
	}))
	return nil
}

// jsonCalls translates JSON to calls of etcd's API.
func jsonCalls(ctx context.Context, conn *grpc.ClientConn) (http.Handler, error) {
	mux := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.HTTPBodyMarshaler{
		Marshaler: &runtime.JSONPb{
			MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
			UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true},
		},
	}))
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		etcdgw.RegisterKVHandler, etcdgw.RegisterWatchHandler, etcdgw.RegisterLeaseHandler, etcdgw.RegisterClusterHandler,
		etcdgw.RegisterMaintenanceHandler, etcdgw.RegisterAuthHandler, lockgw.RegisterLockHandler,
		electiongw.RegisterElectionHandler,
	} {
		if err := register(ctx, mux, conn); err != nil {
			return nil, fmt.Errorf("the JSON gateway: %w", err)
		}
	}
	post := func(_, outgoing *http.Request) *http.Request { // streams are posts
		outgoing.Method = http.MethodPost
		return outgoing
	}
	return wsproxy.WebsocketProxy(mux, wsproxy.WithRequestMutator(post),
		wsproxy.WithMaxRespBodyBufferSize(maxAnswerBytes)), nil
}
