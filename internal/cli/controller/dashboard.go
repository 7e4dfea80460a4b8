package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/controller"
	"github.com/netcraq/netcraq/internal/cluster/dashboard"
	"github.com/netcraq/netcraq/internal/cluster/security"
)

// board is the dashboard of a controller. Each controller may have one, whichever leads: it begins with its own
// controller, which names the leader and the others.
type board struct {
	listener net.Listener
	secure   *security.Identity // nil: the address is of this machine only
	host     string             // that browsers may name
	identity string             // directory
	cluster  controller.Options
}

// newBoard listens at the address. Names of nodes and keys are shown to programs of this machine, or to holders of a
// certificate.
func newBoard(ctx context.Context, address, identity string, o controller.Options) (*board, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		err = fmt.Errorf("--dashboard: want host:port, such as %s: %w", dashboard.DefaultAddress, err)
		return nil, cli.UsageError(err)
	}
	listener, at, err := dashboard.Listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("--dashboard: %w", err)
	}
	b := &board{listener: listener, host: host, identity: identity, cluster: o}
	if at.IP.IsLoopback() {
		return b, nil
	}
	if b.secure = o.Identity; b.secure == nil {
		err := fmt.Errorf("--dashboard %s would show names of nodes and keys to everybody who reaches it: give --identity, "+
			"to ask browsers for a certificate, or %s, and reach that through ssh -L", address, dashboard.DefaultAddress)
		return nil, cli.UsageError(errors.Join(err, listener.Close()))
	}
	return b, nil
}

// serve serves the page until ctx ends.
func (b *board) serve(ctx context.Context, log *slog.Logger) error {
	scheme := "http"
	if b.secure != nil {
		scheme = "https"
	}
	log.Info("dashboard", "url", fmt.Sprintf("%s://%v/", scheme, b.listener.Addr()))
	own := []string{b.cluster.Address}
	source := dashboard.Source{
		Dial:   b.cluster.Identity.DialOption(),
		Leader: admin.NewLeader(own, b.cluster.Identity.DialOption()),
		Open: func(ctx context.Context) (*connect.Client, error) {
			return connect.Open(ctx, connect.Options{Controllers: own, Identity: b.identity})
		},
	}
	defer source.Leader.Close()
	return dashboard.New(source, b.host).Serve(ctx, b.listener, b.secure)
}
