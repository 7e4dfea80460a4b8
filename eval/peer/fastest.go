package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/netcraq/netcraq/eval/bench"
)

// ErrNoGenerator reports that a system has no load generator of its own for an operation.
var ErrNoGenerator = errors.New("no load generator for this operation")

// generator is a store with its own load generator.
type generator interface {
	generate(ctx context.Context, l *Load) (Result, error)
}

// Fastest drives a system with the fastest load generator available: the kernel's for NetCRAQ and
// memcached, and redis-benchmark. The figures exclude the cost of sockets and client libraries, so
// they are comparable only with each other. They include no latencies. With a pipeline a packet
// holds several requests: redis-benchmark uses pipelines, NetCRAQ bundles of as many requests as
// fit; the kernel's generator for memcached supports neither. The kernel's generators never delay a
// request until another one is answered.
func Fastest(ctx context.Context, s Store, l Load) (Result, error) {
	if err := l.complete(); err != nil {
		return Result{}, err
	}
	g, ok := s.(generator)
	if !ok {
		return Result{}, fmt.Errorf("%s: %w", s.Name(), ErrNoGenerator)
	}
	r, err := g.generate(ctx, &l)
	r.System, r.Op, r.Seconds = s.Name(), l.Op, l.Duration.Seconds()
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.Name(), err)
	}
	r.Operations = int64(r.PerSecond * r.Seconds)
	return r, nil
}

// generate measures a chain of the same length that the generator opens itself. Reads go to its
// head, next to the client.
func (s *netcraq) generate(ctx context.Context, l *Load) (Result, error) {
	slots, how := 1, ", one request a frame"
	if l.Pipeline > 1 && (l.Op == Get || l.Op == Put) {
		slots = BundleOf(l.Op, l.ValueBytes)
		how = fmt.Sprintf(", %d requests a frame", slots)
	}
	switch l.Op {
	case Get:
		perSecond, err := s.readLine(ctx, l, slots)
		return Result{PerSecond: perSecond, Pipeline: slots, Generator: fmt.Sprintf("load made in the kernel, clean "+
			"reads at the head of a chain of %d%s", s.hosts(), how)}, err
	case Put:
		node := bench.NodeOptions{Plane: "xdp", Mode: "auto", Keys: l.Keys, ValueBytes: l.ValueBytes}
		windows := bench.Windows{Seconds: l.Duration.Seconds(), Rounds: 2}
		r, err := bench.Write(ctx, bench.WriteOptions{NodeOptions: node, Windows: windows, Nodes: s.hosts(), Slots: slots})
		if err != nil {
			return Result{}, err
		}
		return Result{PerSecond: r.WritesPerS, Pipeline: slots, Generator: fmt.Sprintf("load made in the kernel, "+
			"writes to a chain of %d%s", s.hosts(), how)}, nil
	}
	return Result{}, ErrNoGenerator
}

// readLine measures clean reads at the head of a line.
func (s *netcraq) readLine(ctx context.Context, l *Load, slots int) (perSecond float64, err error) {
	line, err := bench.OpenLine(ctx, bench.LineOptions{Protocol: bench.NetCRAQ, Nodes: s.hosts(), Keys: l.Keys,
		ValueBytes: l.ValueBytes})
	if err != nil {
		return 0, err
	}
	defer line.Close()
	found, err := line.Throughput(ctx, bench.Work{Slots: slots}, l.Duration)
	return found.ReadsPerS, err
}

// BundleOf returns the number of requests per frame that [Fastest] uses for NetCRAQ with a
// pipeline.
func BundleOf(op Op, valueBytes int) int {
	if op == Put {
		return bench.MostWrites(valueBytes)
	}
	return bench.MostReads(valueBytes)
}

// generate measures a server that the generator starts itself, with one thread and with one per
// CPU. It returns the better result.
func (s *memcached) generate(ctx context.Context, l *Load) (Result, error) {
	if l.Op != Get || l.Pipeline > 1 {
		return Result{}, ErrNoGenerator
	}
	var best Result
	counts := []int{1, runtime.NumCPU()}
	for _, threads := range counts {
		r, err := bench.Memcached(ctx, bench.MemcachedOptions{
			Windows: bench.Windows{Seconds: l.Duration.Seconds() / float64(len(counts)), Rounds: 2}, Keys: l.Keys,
			ValueBytes: l.ValueBytes,
			Server:     func(addr netip.AddrPort) []string { return memcachedCommand(addr, threads) },
		})
		if err != nil {
			return best, err
		}
		if r.ReadsPerS > best.PerSecond {
			best = Result{PerSecond: r.ReadsPerS,
				Generator: fmt.Sprintf("load made in the kernel, over UDP, server with %d threads", threads)}
		}
	}
	return best, nil
}

// The numbers of requests with which redis-benchmark's rate is found; they take a fraction of a
// second.
const (
	redisTrial          = 20_000
	redisTrialPipelined = 100_000
)

// generate runs redis-benchmark with several settings and returns the best result.
func (s *redis) generate(ctx context.Context, l *Load) (Result, error) {
	if l.Op != Get && l.Op != Put {
		return Result{}, ErrNoGenerator
	}
	if err := Fill(ctx, s, *l); err != nil {
		return Result{}, err
	}
	var best Result
	rungs, trial := []rung{{8, 1}, {50, 1}}, redisTrial
	if l.Pipeline > 1 {
		rungs, trial = []rung{{50, 16}, {8, 64}, {50, 128}}, redisTrialPipelined
	}
	for _, r := range rungs {
		rate, err := s.benchmark(ctx, l, r, trial)
		if err != nil {
			return best, err
		}
		if rate > best.PerSecond {
			best.PerSecond, best.Clients, best.Pipeline = rate, r.clients, r.pipeline
		}
	}
	best.Generator = "redis-benchmark, " + best.How()
	var err error
	best.PerSecond, err = s.benchmark(ctx, l, rung{best.Clients, best.Pipeline}, int(best.PerSecond*l.Duration.Seconds()))
	return best, err
}

// benchmarkTag precedes the values that redis-benchmark writes. It has no zero bytes, because
// command lines cannot hold them.
const benchmarkTag Version = 0x0101010101010101

// benchmarkCommand returns the command that redis-benchmark repeats.
func benchmarkCommand(l *Load) []string {
	const number = "key-__rand_int__" // redis-benchmark turns it into keyName's format
	if l.Op == Put {
		return []string{"SET", number, benchmarkTag.bytes() + string(valueOf(l.ValueBytes))}
	}
	return []string{"GET", number}
}

// benchmark runs redis-benchmark for the given number of requests and returns its requests per
// second.
func (s *redis) benchmark(ctx context.Context, l *Load, r rung, requests int) (float64, error) {
	addr := s.address()
	arguments := append([]string{"-h", addr.Addr().String(), "-p", strconv.Itoa(int(addr.Port())), "-c",
		strconv.Itoa(r.clients),
		"-P", strconv.Itoa(r.pipeline), "-n", strconv.Itoa(max(requests, 1)), "-r", strconv.Itoa(l.Keys), "--csv"},
		benchmarkCommand(l)...)
	run := exec.CommandContext(ctx, "redis-benchmark", arguments...)
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := run.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return 0, &MissingError{System: Redis, What: "no redis-benchmark on PATH"}
	}
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	return rateIn(string(output))
}

// rateIn returns the requests per second, the second field of the last line.
func rateIn(csv string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(csv), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 2 {
		return 0, fmt.Errorf("unexpected output of redis-benchmark: %q", csv)
	}
	rate, err := strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
	if err != nil {
		return 0, fmt.Errorf("unexpected output of redis-benchmark: %q: %w", csv, err)
	}
	return rate, nil
}
