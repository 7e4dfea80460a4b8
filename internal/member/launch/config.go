package launch

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
)

const (
	fallbackExit  = "exit"
	fallbackProxy = "proxy"
)

// ignored are flags that etcd accepts and ignores.
var ignored = []string{
	"cluster-active-size", "cluster-remove-delay", "cluster-sync-interval", "config", "force", "max-result-buffer",
	"max-retry-attempts", "peer-heartbeat-interval", "peer-election-timeout", "retry-interval", "snapshot", "v", "vv",
	"test.coverprofile", "test.outputdir",
}

var deprecated = map[string]string{
	"max-snapshots": "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
	"v2-deprecation": "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, " +
		"ignoring user input.",
}

// configuration is etcd's configuration, and the flags that set it.
type configuration struct {
	embed.Config
	flags        *flag.FlagSet
	own          *flag.FlagSet // the flags that etcd does not have
	clusterState *flags.SelectiveStringValue
	fallback     *flags.SelectiveStringValue
	deprecation  *flags.SelectiveStringsValue
	file         string
	printVersion bool
}

func newConfiguration(own *flag.FlagSet) *configuration {
	c := &configuration{
		Config:       *embed.NewConfig(),
		flags:        flag.NewFlagSet("etcd", flag.ContinueOnError),
		own:          own,
		clusterState: flags.NewSelectiveStringValue(embed.ClusterStateFlagNew, embed.ClusterStateFlagExisting),
		fallback:     flags.NewSelectiveStringValue(fallbackExit, fallbackProxy),
		deprecation: flags.NewSelectiveStringsValue(string(config.V2Depr1WriteOnly),
			string(config.V2Depr1WriteOnlySkipCheck), string(config.V2Depr1WriteOnlyDrop), string(config.V2Depr2Gone)),
	}
	f := c.flags
	c.AddFlags(f)
	f.StringVar(&c.file, "config-file", "", "path of the configuration file")
	f.Var(c.fallback, "discovery-fallback", "")
	f.Var(c.clusterState, "initial-cluster-state", "")
	f.Var(c.deprecation, "v2-deprecation", "")
	f.BoolVar(&c.printVersion, "version", false, "")
	for _, name := range ignored {
		f.Var(&flags.IgnoredFlag{Name: name}, name, "")
	}
	own.VisitAll(func(o *flag.Flag) { f.Var(o.Value, o.Name, o.Usage) })
	return c
}

// errFlags says that the flag package has already printed what is wrong.
var errFlags = errors.New("wrong flags")

// parse reads the command line, and then the configuration file or the environment, in etcd's order.
func (c *configuration) parse(arguments []string) error {
	switch err := c.flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errFlags
	case c.printVersion:
		return nil
	case len(c.flags.Args()) != 0:
		return fmt.Errorf("%q is not a valid flag", c.flags.Arg(0))
	}
	if c.file == "" {
		c.file = os.Getenv(flags.FlagToEnv("ETCD", "config-file"))
	}
	var err error
	if c.file != "" {
		err = c.fromFile()
	} else {
		err = c.fromCommandLine()
	}
	c.V2Deprecation = config.V2DeprDefault
	c.WarningUnaryRequestDuration = warnAfter(c.WarningUnaryRequestDuration)
	if log := c.GetLogger(); log != nil {
		for name := range c.FlagsExplicitlySet {
			if message, is := deprecated[name]; is {
				log.Warn(message)
			}
		}
	}
	return err
}

func warnAfter(d time.Duration) time.Duration {
	if d == 0 {
		return embed.DefaultWarningUnaryRequestDuration
	}
	return d
}

// fromFile reads the configuration file. The flags that etcd does not have stay valid beside it.
func (c *configuration) fromFile() error {
	given := make(map[string]string)
	c.flags.Visit(func(f *flag.Flag) {
		if c.own.Lookup(f.Name) != nil {
			given[f.Name] = f.Value.String()
		}
	})
	read, err := embed.ConfigFromFile(c.file)
	if err != nil {
		return err
	}
	c.Config = *read
	if log := c.GetLogger(); log != nil {
		log.Info("loaded server configuration, other configuration command line flags and environment variables will be "+
			"ignored if provided", zap.String("path", c.file))
	}
	for name, value := range given { // SetFlagsFromEnv shall see that they are set
		if err := c.own.Set(name, value); err != nil {
			return err
		}
	}
	return ownFromEnvironment(c.own)
}

// ownFromEnvironment sets flags that the command line does not set. It ignores the variables of etcd's flags.
func ownFromEnvironment(own *flag.FlagSet) error {
	var err error
	set := make(map[string]bool)
	own.Visit(func(f *flag.Flag) { set[f.Name] = true })
	own.VisitAll(func(f *flag.Flag) {
		variable := flags.FlagToEnv("ETCD", f.Name)
		if value := os.Getenv(variable); value != "" && !set[f.Name] && err == nil {
			if err = own.Set(f.Name, value); err != nil {
				err = fmt.Errorf("invalid value %q for %s: %w", value, variable, err)
			}
		}
	})
	return err
}

func (c *configuration) fromCommandLine() error {
	log, err := logutil.CreateDefaultZapLogger(zap.InfoLevel)
	if err != nil {
		return err
	}
	const special = "ETCD_VERSION"
	if value := os.Getenv(special); value != "" {
		os.Unsetenv(special)
		log.Warn("cannot set special environment variable", zap.String("key", special), zap.String("value", value))
	}
	if err := flags.SetFlagsFromEnv(log, "ETCD", c.flags); err != nil {
		return err
	}
	if rafthttp.ConnReadTimeout < rafthttp.DefaultConnReadTimeout {
		rafthttp.ConnReadTimeout = rafthttp.DefaultConnReadTimeout
		log.Info(fmt.Sprintf("raft-read-timeout increased to minimum value: %v", rafthttp.DefaultConnReadTimeout))
	}
	if rafthttp.ConnWriteTimeout < rafthttp.DefaultConnWriteTimeout {
		rafthttp.ConnWriteTimeout = rafthttp.DefaultConnWriteTimeout
		log.Info(fmt.Sprintf("raft-write-timeout increased to minimum value: %v", rafthttp.DefaultConnWriteTimeout))
	}
	c.takeFlags()
	if c.fallback.String() == fallbackProxy {
		return fmt.Errorf("v2 proxy is deprecated, and --discovery-fallback can't be configured as %q", fallbackProxy)
	}
	return c.Validate()
}

// takeFlags sets the fields whose flags have a type of their own.
func (c *configuration) takeFlags() {
	f := c.flags
	c.ListenPeerUrls = flags.UniqueURLsFromFlag(f, "listen-peer-urls")
	c.AdvertisePeerUrls = flags.UniqueURLsFromFlag(f, "initial-advertise-peer-urls")
	c.ListenClientUrls = flags.UniqueURLsFromFlag(f, "listen-client-urls")
	c.ListenClientHttpUrls = flags.UniqueURLsFromFlag(f, "listen-client-http-urls")
	c.AdvertiseClientUrls = flags.UniqueURLsFromFlag(f, "advertise-client-urls")
	c.ListenMetricsUrls = flags.UniqueURLsFromFlag(f, "listen-metrics-urls")
	c.DiscoveryCfg.Endpoints = flags.UniqueStringsFromFlag(f, "discovery-endpoints")
	c.CORS = flags.UniqueURLsMapFromFlag(f, "cors")
	c.HostWhitelist = flags.UniqueStringsMapFromFlag(f, "host-whitelist")
	c.ClientTLSInfo.AllowedHostnames = flags.StringsFromFlag(f, "client-cert-allowed-hostname")
	c.PeerTLSInfo.AllowedCNs = flags.StringsFromFlag(f, "peer-cert-allowed-cn")
	c.PeerTLSInfo.AllowedHostnames = flags.StringsFromFlag(f, "peer-cert-allowed-hostname")
	c.CipherSuites = flags.StringsFromFlag(f, "cipher-suites")
	c.MaxConcurrentStreams = flags.Uint32FromFlag(f, "max-concurrent-streams")
	c.LogOutputs = flags.UniqueStringsFromFlag(f, "log-outputs")
	c.ClusterState = c.clusterState.String()
	c.V2Deprecation = config.V2DeprecationEnum(c.deprecation.String())
	if flags.IsSet(f, "listen-client-urls") && !flags.IsSet(f, "advertise-client-urls") {
		c.AdvertiseClientUrls = nil
	}
	discovered := c.DNSCluster != "" || c.DNSClusterServiceName != "" || len(c.DiscoveryCfg.Endpoints) > 0
	if discovered && !flags.IsSet(f, "initial-cluster") {
		c.InitialCluster = ""
	}
	f.Visit(func(set *flag.Flag) {
		if c.own.Lookup(set.Name) == nil {
			c.FlagsExplicitlySet[set.Name] = true
		}
	})
}
