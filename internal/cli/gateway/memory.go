package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/memory"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/platform/collector"
	"github.com/netcraq/netcraq/internal/platform/memlimit"
	"github.com/netcraq/netcraq/internal/platform/systemd"
)

// memoryFlags are the flags of a keyspace in memory.
type memoryFlags struct {
	on       bool
	name     string
	entries  int
	first    int64
	quota    int64
	progress time.Duration
	tokens   keyspace.Tokens
}

func (m *memoryFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&m.on, "memory", false,
		"serve a keyspace without an etcd, in the memory of the chain's nodes: it is lost if a chain loses its state")
	f.StringVar(&m.name, "keyspace", memory.DefaultName, "name of the keyspace of --memory")
	f.IntVar(&m.entries, "log-entries", chainlog.DefaultEntries,
		"objects of the chain for the log of a new keyspace of --memory")
	f.Int64Var(&m.first, "first-revision", 0,
		"revision at which a new keyspace of --memory begins; 1, as a new etcd, only if no client knows an earlier one "+
			"(default: the time in microseconds)")
	f.Int64Var(&m.quota, "quota-bytes", 0,
		"memory that the keyspace of --memory may take with its history (default: half of the memory limit of the control "+
			"group, else of the machine's memory; at most 2 GiB)")
	f.DurationVar(&m.progress, "watch-progress-notify-interval", 10*time.Minute,
		"--memory: time without events after which a watch that asked for it is told the revision; as etcd's flag")
}

// onlyMemory are the flags that need --memory, and withMemory those that may be given with it.
var (
	onlyMemory = []string{"keyspace", "log-entries", "first-revision", "quota-bytes", "watch-progress-notify-interval"}
	withMemory = append([]string{"memory", "listen", "listen-addr", "advertise-client-url", "data-dir", "cert-file",
		"key-file", "trusted-ca-file", "client-crl-file", "listen-cipher-suites", "tls-min-version", "tls-max-version", "auto-tls",
		"self-signed-cert-validity", "cert", "key", "cacert", "insecure-skip-tls-verify", "max-request-bytes", "max-connections", "metrics-addr", "cluster",
		"controllers", "identity", "enable-pprof", "debug", "log-format", "config"}, onlyMemory...)
)

// check refuses flags that do not belong together.
func (m *memoryFlags) check(f *pflag.FlagSet) error {
	var wrong []string
	f.Visit(func(given *pflag.Flag) {
		if m.on && !slices.Contains(withMemory, given.Name) || !m.on && slices.Contains(onlyMemory, given.Name) {
			wrong = append(wrong, "--"+given.Name)
		}
	})
	names := strings.Join(wrong, ", ")
	switch {
	case len(wrong) > 0 && m.on:
		return cli.UsageError(fmt.Errorf("%s: not with --memory, which serves a keyspace of its own without an etcd", names))
	case len(wrong) > 0:
		return cli.UsageError(fmt.Errorf("%s: only with --memory", names))
	case m.on && (m.entries < minLogEntries || m.entries > maxLogEntries):
		return cli.UsageError(fmt.Errorf("--log-entries %d: want %d to %d", m.entries, minLogEntries, maxLogEntries))
	case m.on && m.first < 0:
		return cli.UsageError(fmt.Errorf("--first-revision %d: want at least 1", m.first))
	case m.on && m.quota != 0 && m.quota < minQuota:
		return cli.UsageError(fmt.Errorf("--quota-bytes %d: want at least %d", m.quota, minQuota))
	case m.on && m.progress < minProgress:
		return cli.UsageError(fmt.Errorf("--watch-progress-notify-interval %v: want at least %v", m.progress, minProgress))
	case m.on && m.name == "":
		return cli.UsageError(fmt.Errorf("--keyspace: want a name"))
	}
	return nil
}

// A log must have room for requests of the default maximum size, and for the time that a snapshot takes.
const minLogEntries, maxLogEntries = 4096, 1 << 20

// minQuota is room for a few requests of the default maximum size.
const minQuota = 16 << 20

// bounds returns the quota, and bounds the process's memory by twice the quota. Until ctx ends the garbage collector
// follows the size of the keyspace.
func (m *memoryFlags) bounds(ctx context.Context, log *slog.Logger) int64 {
	go collector.Follow(ctx)
	limit, limited := memlimit.Find()
	quota := quotaWithin(m.quota, limit)
	collectBelow(2 * quota)
	log.Info("memory", "limit", limit, "of_the_control_group", limited, "quota", quota)
	if limited && quota > limit/2 {
		log.Warn("the quota is more than half of the memory limit, and the gateway may be ended for lack of memory",
			"quota", quota, "limit", limit)
	}
	return quota
}

// quotaWithin returns the quota that was given, or the default one for a memory limit. 0: none is given, or known.
func quotaWithin(given, limit int64) int64 {
	switch {
	case given != 0:
		return given
	case limit == 0:
		return memory.DefaultQuotaBytes
	}
	return max(min(limit/2, memory.DefaultQuotaBytes), minQuota)
}

// minProgress keeps idle watches from using the CPU.
const minProgress = 100 * time.Millisecond

// serve runs a memory gateway until ctx ends.
func (m *memoryFlags) serve(ctx context.Context, log io.Writer, flags *gatewayFlags) error {
	o := flags.options
	o.Log = cli.NewLog(log, flags.verbose, flags.logFormat)
	chain, err := flags.cluster.Await(ctx, client.Options{}, o.Log)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer chain.Close()
	quota := m.bounds(ctx, o.Log)
	s, err := memory.Listen(memory.ServerOptions{
		Options: memory.Options{
			Chain: chain.Client, Name: m.name, Advertise: o.Advertise, LogEntries: m.entries,
			FirstRevision: m.first, MaxRequestBytes: o.MaxRequestBytes, Log: o.Log,
			ProgressEvery: m.progress, QuotaBytes: quota, Tokens: m.tokens,
		},
		Listen: o.Listen, Clients: o.Clients, Metrics: o.Metrics, MaxConnections: o.MaxConnections, PeerCertificates: o.Etcd,
		Profiles: o.Profiles,
	})
	if err != nil {
		return err
	}
	warnOpenChain(o.Log, chain.Map())
	o.Log.Info(servesMessage, "address", s.Addr().String(), "keyspace", m.name)
	systemd.Supervise(ctx, o.Log, nil)()
	return s.Serve(ctx)
}

// unlessEnded is the error of a start, unless the start was to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
