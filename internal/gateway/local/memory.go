package local

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/memory"
)

// Memory is a gateway of a keyspace in a chain's memory, in this process: to try things out.
type Memory struct {
	chain  *client.Client
	server *memory.Server
}

// StartMemory listens on an address. Whoever starts it calls [Memory.Serve].
func StartMemory(listen string, cluster *topology.Cluster, log *slog.Logger) (*Memory, error) {
	chain, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		return nil, err
	}
	server, err := memory.Listen(memory.ServerOptions{Options: memory.Options{Chain: chain, Log: log}, Listen: listen})
	if err != nil {
		return nil, errors.Join(err, chain.Close())
	}
	return &Memory{chain, server}, nil
}

// Addr is where the gateway serves.
func (m *Memory) Addr() net.Addr { return m.server.Addr() }

// Serve serves until ctx ends.
func (m *Memory) Serve(ctx context.Context) error {
	return errors.Join(m.server.Serve(ctx), m.chain.Close())
}
