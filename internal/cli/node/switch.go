package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4/p4runtime"
	"github.com/netcraq/netcraq/internal/platform/systemd"
)

const (
	// switchListen has the port that P4Runtime is registered for.
	switchListen = "127.0.0.1:9559"
	// switchMessageBytes has room for the program of a pipeline.
	switchMessageBytes = 32 << 20
	// switchPing is the time without a message after which a controller is pinged, and the time that it has to answer.
	// One that does not answer is no longer the primary.
	switchPing = 5 * time.Second
)

// switchCalls lists who may call a switch.
var switchCalls = security.Calls{
	p4v1.P4Runtime_Write_FullMethodName:                       {security.Node, security.Admin},
	p4v1.P4Runtime_SetForwardingPipelineConfig_FullMethodName: {security.Node, security.Admin},
	p4v1.P4Runtime_StreamChannel_FullMethodName:               {security.Node, security.Admin},
	p4v1.P4Runtime_Read_FullMethodName:                        security.Roles,
	p4v1.P4Runtime_GetForwardingPipelineConfig_FullMethodName: security.Roles,
	p4v1.P4Runtime_Capabilities_FullMethodName:                security.Roles,
}

// switchFlags are the command line of `netcraq switch`.
type switchFlags struct {
	listen, identity string
	device           uint64
	ports            []string
	noRegisters      bool
	verbose          bool
	logFormat        cli.LogFormat
}

func newSwitchCommand() *cobra.Command {
	var flags switchFlags
	c := &cobra.Command{
		Use:   "switch",
		Short: "Run a software switch that controllers drive by P4Runtime",
		Long: `Run a software switch that controllers drive by P4Runtime ` + p4runtime.Version + `.

The switch has no program until a controller sets a pipeline: a P4Info, and as device config the program that
p4c-dpdk compiled (.spec). It needs the engine netcraq-swx. Beyond loopback it needs --identity: controllers then
show a certificate of the same authority, with the role node or admin to change something. They compare the switch's
address with its certificate: "netcraq certs make DIR --controllers ADDRESS" puts it into that of DIR/controller.`,
		Example: `  netcraq switch
  sudo netcraq switch --port-if eth1 --port-if eth2 --listen 192.0.2.1:9559 --identity certs/controller`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSwitch(c.Context(), c.ErrOrStderr(), &flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.listen, "listen", switchListen, "TCP address for controllers")
	f.Uint64Var(&flags.device, "device", cli.SwitchDevice, "number by which controllers name this switch")
	f.StringArrayVar(&flags.ports, "port-if", nil,
		"network interface of the next port, from 0 on; may be repeated (default: packets of controllers only)")
	f.StringVar(&flags.identity, "identity", "",
		"directory of this switch's certificate, as netcraq certs makes it (default: no encryption, on loopback only)")
	f.BoolVar(&flags.noRegisters, "no-registers", false,
		"answer UNIMPLEMENTED to registers, as servers of other switches do, for tests of controllers")
	flags.logFormat.Add(f)
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "log more")
	return c
}

// check refuses flags that cannot work, before any controller finds out.
func (flags *switchFlags) check() error {
	at, err := net.ResolveTCPAddr("tcp", flags.listen)
	switch {
	case err != nil:
		return cli.UsageError(fmt.Errorf("--listen %q: %w", flags.listen, err))
	case flags.identity == "" && !at.IP.IsLoopback():
		return cli.UsageError(fmt.Errorf(
			"--listen %s is not on loopback, where everybody could change the switch: give --identity", flags.listen))
	case flags.device == 0:
		return cli.UsageError(errors.New("--device 0: P4Runtime numbers devices from 1 on"))
	case len(flags.ports) > p4.MostPorts:
		return cli.UsageError(fmt.Errorf("%d of --port-if: a switch has %d ports", len(flags.ports), p4.MostPorts))
	}
	for _, name := range flags.ports {
		if _, err := net.InterfaceByName(name); err != nil {
			return fmt.Errorf("--port-if %s: %w", name, err)
		}
	}
	return nil
}

func runSwitch(ctx context.Context, stderr io.Writer, flags *switchFlags) error {
	log := cli.NewLog(stderr, flags.verbose, flags.logFormat)
	if err := flags.check(); err != nil {
		return err
	}
	if _, err := p4.FindEngine(); err != nil {
		return err
	}
	if len(flags.ports) > 0 {
		if err := p4.MayOpen(); err != nil {
			return err
		}
	}
	identity, err := cli.LoadIdentity(flags.identity)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("%w: name another address with --listen", err)
	}
	return serveSwitch(ctx, log, flags, listener, identity.ServerOptions(log, switchCalls))
}

func serveSwitch(ctx context.Context, log *slog.Logger, flags *switchFlags, listener net.Listener,
	options []grpc.ServerOption) error {
	s := p4runtime.New(p4runtime.Options{
		Device: flags.device, Ports: flags.ports, Log: log, NoRegisters: flags.noRegisters,
		Start: func(program []byte) (p4runtime.Engine, error) { return p4.StartSWX(program, p4.EngineMegabytes) },
	})
	server := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(switchMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: switchPing, Timeout: switchPing}))...)
	p4v1.RegisterP4RuntimeServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	log.Info("switch serves controllers", "address", listener.Addr().String(), "device", flags.device,
		"ports", flags.ports)
	systemd.Supervise(ctx, log, nil)()
	select {
	case <-ctx.Done():
		server.Stop()
		return errors.Join(<-served, s.Close())
	case err := <-served:
		return errors.Join(err, s.Close())
	}
}
