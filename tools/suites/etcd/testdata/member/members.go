// Package members lets the members of etcd's integration tests, which run in the process of a test, read through a chain.
// It is compiled as a package of the product.
package members

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/engine"
)

// New makes the front of a member, and returns the options of its gRPC server. If $EXPECT_CHAIN, a cluster file, is not
// set, they are those of the test, and the member is etcd's. A server with TLS, or with options of the test, keeps its
// clients' connections, as it does with the flags of etcd that the product's own server lacks.
func New(tls bool, of []grpc.ServerOption) (*member.Front, []grpc.ServerOption) {
	if os.Getenv("EXPECT_CHAIN") == "" {
		return nil, of
	}
	c := &embed.Config{EnableDistributedTracing: tls || len(of) > 0}
	front := member.NewFront()
	front.Configure(c)
	return front, append(c.GRPCAdditionalServerOptions, of...)
}

// Start lets a member serve its clients once it is ready, until it stops.
func Start(front *member.Front, server *etcdserver.EtcdServer) {
	if front == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	chain := new(objects.Late)
	go func() {
		c, err := connect.Open(ctx, connect.Options{File: os.Getenv("EXPECT_CHAIN")})
		if err != nil {
			fmt.Println("no chain:", err)
			return
		}
		defer c.Close()
		chain.Open(c.Client)
		<-ctx.Done()
	}()
	go func() {
		defer stop()
		select {
		case <-server.ReadyNotify():
			e := engine.Start(engine.Options{Server: server, Chain: chain, Log: slog.New(slog.DiscardHandler)})
			front.Start(server, e)
			<-server.StopNotify()
			e.Close()
		case <-server.StopNotify():
		}
		front.Stop(ctx)
		fmt.Printf("\nmember: %d reads from the chain\n", front.Fast())
	}()
}
