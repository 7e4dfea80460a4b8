// Package launch starts etcd as etcd's own program does, with what another program adds to it. It repeats the unexported
// parts of go.etcd.io/etcd/server/v3/etcdmain; TestSameSources says when a new release of etcd changes them.
package launch

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/osutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdmain"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

// Addition is what a program adds to etcd.
type Addition struct {
	// Help is printed before the flags and etcd's own help.
	Help string
	// Flags are set by the command line, or by variables named as those of etcd's flags.
	Flags *flag.FlagSet
	// Configure changes the configuration before etcd starts. It returns the error of wrong flags.
	Configure func(*embed.Config) error
	// Started is called once the server runs, possibly before it has joined its cluster.
	Started func(*embed.Etcd)
	// Stop is called before the server is closed after a signal.
	Stop func()
}

var help = []string{"-h", "-help", "--h", "--help"}

// Main is etcd's main function. It ends the process. Unless one of the flags is set that etcd does not have, this is the main function of
// etcd's own program.
func Main(args []string, add Addition) {
	signal.Reset(syscall.SIGINT, syscall.SIGTERM) // etcd handles them once it has started
	plain := func() {
		os.Args = args // for etcd's subcommands
		etcdmain.Main(args)
		os.Exit(0)
	}
	if slices.ContainsFunc(args[1:], func(arg string) bool { return slices.Contains(help, arg) }) {
		add.printHelp()
	}
	if !add.given(args[1:]) {
		plain()
	}
	c := newConfiguration(add.Flags)
	c.flags.Usage = func() { fmt.Fprintln(os.Stderr, "Usage: netcraq etcd [flags]; --help lists the flags.") }
	err := c.parse(args[1:])
	switch {
	case errors.Is(err, errFlags):
		os.Exit(2)
	case errors.Is(err, flag.ErrHelp), c.printVersion:
		args = []string{args[0], "--version"}
		if err != nil {
			args[1] = "--help"
		}
		plain()
	}
	start(args, c, err, add)
}

// printHelp prints the flags that etcd does not have, in the style of etcd's help, which follows.
func (add *Addition) printHelp() {
	fmt.Println(add.Help)
	add.Flags.VisitAll(func(f *flag.Flag) { fmt.Printf("  --%s '%s'\n    %s\n", f.Name, f.DefValue, f.Usage) })
}

// given reports whether one of the flags that etcd does not have is set.
func (add *Addition) given(args []string) bool {
	found := false
	add.Flags.VisitAll(func(f *flag.Flag) {
		_, set := os.LookupEnv("ETCD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")))
		found = found || set || slices.ContainsFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
			return strings.TrimPrefix(name, "-") == f.Name && strings.HasPrefix(arg, "-")
		})
	})
	return found
}

// start is etcdmain's startEtcdOrProxyV2.
func start(args []string, c *configuration, err error, add Addition) {
	grpc.EnableTracing = false
	initial := embed.NewConfig().InitialCluster
	log := c.logger()
	log.Info("Running: ", zap.Strings("args", args))
	if err == nil {
		err = add.Configure(&c.Config)
	}
	if err != nil {
		log.Warn("failed to verify flags", zap.Error(err))
		if errors.Is(err, embed.ErrUnsetAdvertiseClientURLsFlag) {
			log.Warn("advertise client URLs are not set", zap.Error(err))
		}
		os.Exit(1)
	}
	c.SetupGlobalLoggers()
	host, err := c.UpdateDefaultClusterFromName(initial)
	if host != "" {
		log.Info("detected default host for advertise", zap.String("host", host))
	}
	if err != nil {
		log.Info("failed to detect default host", zap.Error(err))
	}
	if c.Dir == "" {
		c.Dir = fmt.Sprintf("%v.etcd", c.Name)
		log.Warn("'data-dir' was empty; using default", zap.String("data-dir", c.Dir))
	}
	checkDir(log, c.Dir)
	stopped, failed, err := startServer(&c.Config, add)
	if err != nil {
		explain(log, &c.Config, err)
	}
	osutil.HandleInterrupts(log)
	notifySystemd(log)
	select {
	case err := <-failed:
		log.Fatal("listener failed", zap.Error(err))
	case <-stopped:
	}
	_ = log.Sync() // as etcd
	osutil.Exit(0)
}

// logger returns the configured logger, or one for the errors of a configuration that has none.
func (c *configuration) logger() *zap.Logger {
	if log := c.GetLogger(); log != nil {
		return log
	}
	log, err := logutil.CreateDefaultZapLogger(zap.InfoLevel)
	if err != nil {
		fmt.Printf("error creating zap logger %v", err)
		os.Exit(1)
	}
	return log
}

// startServer is etcdmain's startEtcd.
func startServer(c *embed.Config, add Addition) (<-chan struct{}, <-chan error, error) {
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, nil, err
	}
	osutil.RegisterInterruptHandler(add.Stop)
	osutil.RegisterInterruptHandler(e.Close)
	add.Started(e)
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StopNotify():
	}
	return e.Server.StopNotify(), e.Err(), nil
}

// explain logs why etcd has not started, and ends the process.
func explain(log *zap.Logger, c *embed.Config, err error) {
	var discovery *etcderrors.DiscoveryError
	if errors.As(err, &discovery) {
		log.Warn("failed to bootstrap; discovery token was already used",
			zap.String("discovery-token", c.DiscoveryCfg.Token),
			zap.Strings("discovery-endpoints", c.DiscoveryCfg.Endpoints), zap.Error(err))
		log.Warn("do not reuse discovery token; generate a new one to bootstrap a cluster")
		os.Exit(1)
	}
	if strings.Contains(err.Error(), "include") && strings.Contains(err.Error(), "--initial-cluster") {
		log.Warn("failed to start", zap.Error(err))
		if c.InitialCluster == c.InitialClusterFromName(c.Name) {
			log.Warn("forgot to set --initial-cluster?")
		}
		if types.URLs(c.AdvertisePeerUrls).String() == embed.DefaultInitialAdvertisePeerURLs {
			log.Warn("forgot to set --initial-advertise-peer-urls?")
		}
		if c.InitialCluster == c.InitialClusterFromName(c.Name) && len(c.DiscoveryCfg.Endpoints) == 0 {
			log.Warn("V3 discovery settings (i.e., --discovery-token, --discovery-endpoints) are not set")
		}
		os.Exit(1)
	}
	log.Fatal("discovery failed", zap.Error(err))
}

// checkDir logs what the data directory has, and ends the process if that is not a member's.
func checkDir(log *zap.Logger, dir string) {
	names, err := fileutil.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		log.Fatal("failed to list data directory", zap.String("dir", dir), zap.Error(err))
	}
	for _, name := range names {
		if name != "member" && name != "proxy" {
			log.Warn("found invalid file under data directory", zap.String("filename", name), zap.String("data-dir", dir))
		}
	}
	member, proxy := slices.Contains(names, "member"), slices.Contains(names, "proxy")
	at, kind := zap.String("data-dir", dir), func(k string) zap.Field { return zap.String("dir-type", k) }
	switch {
	case member && proxy:
		log.Fatal("invalid datadir; both member and proxy directories exist")
	case member:
		log.Info("server has already been initialized", at, kind("member"))
	case proxy:
		log.Info("server has already been initialized", at, kind("proxy"))
		log.Panic("v2 http proxy has already been deprecated in 3.6", kind("proxy"))
	default:
		log.Info("Initialize and start etcd server", at, kind("empty"))
	}
}

// notifySystemd tells systemd that the server is ready.
func notifySystemd(log *zap.Logger) {
	log.Info("notifying init daemon")
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Error("failed to notify systemd for readiness", zap.Error(err))
		return
	}
	log.Info("successfully notified init daemon")
}
