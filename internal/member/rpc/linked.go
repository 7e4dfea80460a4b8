package rpc

import (
	_ "unsafe" // for go:linkname

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
)

// What etcd's gRPC server has around its handlers, and does not export. A release of etcd without one of these names
// does not link; TestSameSources says when it changes what they do.

// notifier is an interface of v3rpc, which is only passed on.
type notifier interface {
	defragStarted()
	defragFinished()
}

//go:linkname newLogUnaryInterceptor go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.newLogUnaryInterceptor
func newLogUnaryInterceptor(s *etcdserver.EtcdServer) grpc.UnaryServerInterceptor

//go:linkname newUnaryInterceptor go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.newUnaryInterceptor
func newUnaryInterceptor(s *etcdserver.EtcdServer) grpc.UnaryServerInterceptor

//go:linkname newStreamInterceptor go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.newStreamInterceptor
func newStreamInterceptor(s *etcdserver.EtcdServer) grpc.StreamServerInterceptor

//go:linkname getServerMetrics go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.getServerMetrics
func getServerMetrics(kind string, log *zap.Logger) *grpcprometheus.ServerMetrics

//go:linkname newHealthNotifier go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.newHealthNotifier
func newHealthNotifier(h *health.Server, s *etcdserver.EtcdServer) notifier

//go:linkname newMaintenanceServer go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.NewMaintenanceServer
func newMaintenanceServer(s *etcdserver.EtcdServer, n notifier) pb.MaintenanceServer

//go:linkname sentBytes go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.sentBytes
var sentBytes prometheus.Counter

//go:linkname receivedBytes go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.receivedBytes
var receivedBytes prometheus.Counter
