// Package program is the program of an etcd server that reads through a chain: etcd's own, with a front and an engine.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/member"
	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/engine"
	"github.com/netcraq/netcraq/internal/member/launch"
	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/build"
)

// Values of --chain-reads.
const (
	auto = "auto"
	off  = "off"
)

// program is one server.
type program struct {
	controllers, file, identity, pins, reads string
	without                                  core.Rule

	front  *member.Front
	log    *slog.Logger
	ctx    context.Context // until the server is told to stop
	stop   context.CancelFunc
	engine chan *engine.Engine // has the engine once it runs
	chain  *chain
}

const help = `etcd with linearizable reads through a chain. Without a flag of the chain it is etcd.

  netcraq etcd [flags]
    Start a server.

  netcraq etcd off | on | status [--data-dir DIR] [--json]
    End fast reads of the cluster whose server uses a data directory, begin them again, or show them.

Chain:`

// Main runs a server, with the arguments of etcd and those of the chain. It ends the process.
func Main(args []string) { MainWithout(0, args) }

// MainWithout is [Main] without a rule, for tests that have to notice it.
func MainWithout(rule core.Rule, args []string) {
	p := &program{front: member.NewFront(), engine: make(chan *engine.Engine, 1), without: rule}
	p.ctx, p.stop = context.WithCancel(context.Background())
	launch.Main(args, launch.Addition{Help: help, Flags: p.flags(), Configure: p.configure, Started: p.started, Stop: p.leave})
}

func (p *program) flags() *flag.FlagSet {
	f := flag.NewFlagSet("chain", flag.ContinueOnError)
	f.StringVar(&p.controllers, "chain-controllers", "",
		"TCP addresses of the chain's controllers or agents, with commas between them.")
	f.StringVar(&p.file, "chain-cluster", "", "Cluster file of the chain, in the place of --chain-controllers.")
	f.StringVar(&p.identity, "chain-identity", "",
		"Directory of this server's certificate for the chain, as netcraq certs makes it. Without it nothing is encrypted.")
	f.StringVar(&p.pins, "chain-pins", pods.PinRoot,
		"Directory with the pins of this machine's nodes, for reads without the network. Empty: always use the network.")
	f.StringVar(&p.reads, "chain-reads", auto,
		"auto: read through the chain while all members of etcd's cluster do. off: stay out of it.")
	return f
}

// configure checks the flags, and has clients' calls pass the front.
func (p *program) configure(c *embed.Config) error {
	p.log = slog.New(zapHandler{c.GetLogger()})
	switch {
	case p.reads != auto && p.reads != off:
		return fmt.Errorf("--chain-reads %q: want %s or %s", p.reads, auto, off)
	case p.controllers != "" && p.file != "":
		return errors.New("--chain-controllers and --chain-cluster: give one of them")
	case p.controllers == "" && p.file == "":
		if p.reads == off {
			return nil
		}
		return errors.New("no chain: give --chain-controllers or --chain-cluster, or no flag of the chain at all")
	}
	o := connect.Options{File: p.file, Identity: p.identity}
	if p.controllers != "" {
		o.Controllers = strings.Split(p.controllers, ",")
	}
	if _, err := o.Cluster(); err != nil {
		return fmt.Errorf("the chain: %w", err)
	}
	if _, err := o.LoadIdentity(); err != nil {
		return fmt.Errorf("--chain-identity: %w", err)
	}
	p.chain = newChain(o, p.pins, p.log)
	p.front.Configure(c)
	if setting := member.Refused(c); setting != "" {
		p.log.Info("etcd's own gRPC server serves clients, which takes more CPU time", "because_of", setting)
	}
	return nil
}

// started brings the engine up once the server has joined its cluster. Until then no client is served.
func (p *program) started(e *embed.Etcd) {
	if p.chain == nil {
		return
	}
	p.front.Running(e)
	go p.chain.run(p.ctx) // a member that begins without its chain rests before it tries again
	go func() {
		select {
		case <-e.Server.ReadyNotify():
		case <-e.Server.StopNotify():
			return
		}
		running := engine.Start(engine.Options{
			Server: e.Server, Chain: &p.chain.late, Nearby: p.chain.nearby(), Off: p.reads == off, Log: p.log,
			Version: build.Name(), Without: p.without,
		})
		p.engine <- running
		p.front.Start(e.Server, running)
		if err := prometheus.Register(collector{p.front, running}); err != nil {
			p.log.Warn("no metrics of reads through the chain", "reason", err)
		}
		control := &control{engine: running, log: p.log}
		if err := control.serve(p.ctx, e.Config().Dir); err != nil {
			p.log.Warn("netcraq etcd off, on and status do not reach this server", "reason", err)
		}
	}()
}

// leave ends fast reads before the server stops: plain etcd may be started next.
func (p *program) leave() {
	defer p.stop()
	defer p.endCalls()
	select {
	case e := <-p.engine:
		defer func() { p.log.Info("the server reads through the chain no more", "fast-reads", p.front.Fast()) }()
		ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		if err := e.SetOff(ctx, true); err != nil {
			p.log.Warn("other members may still read through the chain: run netcraq etcd off at one of them before plain etcd starts "+
				"on this data directory", "reason", err)
		}
	default: // it has never taken part
	}
}

// endCalls ends clients' connections. Calls under way may take as long as etcd lets them.
func (p *program) endCalls() {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	p.front.Stop(ctx)
}

// endWithin is what etcd has by default: the time of a request and of two elections.
const endWithin = 7 * time.Second

// leaveWithin bounds how long a stop waits for the other members.
const leaveWithin = engine.DefaultTTL + engine.DefaultTTL/2

// zapHandler writes log lines into etcd's log.
type zapHandler struct{ log *zap.Logger }

func (h zapHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h zapHandler) Handle(_ context.Context, r slog.Record) error {
	log := h.log
	if log == nil {
		fmt.Fprintln(os.Stderr, r.Message)
		return nil
	}
	var fields []zap.Field
	r.Attrs(func(a slog.Attr) bool {
		fields = append(fields, zap.Any(a.Key, a.Value.Resolve().Any()))
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		log.Error(r.Message, fields...)
	case r.Level >= slog.LevelWarn:
		log.Warn(r.Message, fields...)
	default:
		log.Info(r.Message, fields...)
	}
	return nil
}

func (h zapHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h zapHandler) WithGroup(string) slog.Handler      { return h }
