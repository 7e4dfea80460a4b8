package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/node/pods"
)

func (flags *nodeFlags) addPods(f *pflag.FlagSet) {
	f.Func("pod-addr", "xdp: an IPv4 `address` that no machine has, such as 169.254.77.1, at which the pods of this "+
		"machine reach the node; netcraq-cni leads them there (default: none)", func(text string) (err error) {
		flags.plane.pods, err = netip.ParseAddr(text)
		return err
	})
	f.StringVar(&flags.podDir, "pod-dir", pods.DefaultDir,
		"with --pod-addr: directory in which netcraq-cni records the interfaces of pods")
}

// podServer serves the pods of this machine; the zero value serves none.
type podServer struct{ server *pods.Server }

// listenPods takes the socket that the CNI plugin speaks to, if the node serves pods.
func (flags *nodeFlags) listenPods(log *slog.Logger) (podServer, error) {
	if !flags.plane.pods.IsValid() {
		return podServer{}, nil
	}
	if flags.plane.kind != cli.PlaneXDP && flags.plane.kind != cli.PlaneAuto {
		return podServer{}, cli.UsageError(fmt.Errorf("--pod-addr is for --plane %s", cli.PlaneXDP))
	}
	if len(flags.plane.ports) == 0 {
		return podServer{}, cli.UsageError(errors.New(
			"--pod-addr needs --port-if: without it the node would take the interfaces of pods for its own"))
	}
	server, err := pods.Listen(pods.Dir(flags.podDir), flags.plane.pods, log.With("node", flags.name))
	return podServer{server}, err
}

func (p podServer) serve(ctx context.Context, plane *xdp.Plane) error {
	if p.server == nil {
		return nil
	}
	return p.server.Serve(ctx, plane)
}

func (p podServer) close() error {
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}
