// Command kernels tests the XDP plane on common kernels: Debian's Linux 6.1 and 6.12 for x86-64, and 6.12 for arm64. Only
// a kernel's own verifier and CPU can show that the programs load and work. The command fetches the kernels as packages and
// boots each in QEMU without KVM, with an initramfs of busybox and this project's programs. There it runs every case of
// spec/vectors, random packets, the tests with several CPUs at one object, and a lab under loss.
//
// `make test-kernels` runs it from the project's root. ONLY=6.1-amd64 runs one kernel, JOBS=2 runs two at a time, and
// MINUTES=40 gives each more time. PACKETS is the number of random packets. Fetched and built files stay in
// out/kernels. The exit status is 1 if anything failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/xdp/verified"
)

// kernel is one to run on.
type kernel struct {
	release string // as people say it
	arch    string // as Debian and Go say it
	series  string // begin of the package's name
}

func (k kernel) name() string { return k.release + "-" + k.arch }

var kernels = []kernel{
	{"6.1", "amd64", "linux-image-6.1.0-"},
	{"6.12", "amd64", "linux-image-6.12."},
	{"6.12", "arm64", "linux-image-6.12."},
}

// defaultPackets is how many random packets each kernel gets.
const defaultPackets = 100_000

// cache is where packages and programs stay.
const cache = verified.Dir

// defaultMinutes limits the time of one machine: several times the time that it needs on an idle host.
const defaultMinutes = 40

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	wanted, err := selected(os.Getenv("ONLY"))
	if err != nil {
		return err
	}
	jobs, err := number("JOBS", max(1, min(2, runtime.NumCPU()/machineCPUs)))
	if err != nil {
		return err
	}
	minutes, err := number("MINUTES", defaultMinutes)
	if err != nil {
		return err
	}
	packets, err := number("PACKETS", defaultPackets)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	progress := &console{out: os.Stderr}
	parts, err := prepare(ctx, wanted, progress)
	if err != nil {
		return err
	}
	results := make([]*result, len(wanted))
	var group sync.WaitGroup
	slots := make(chan struct{}, jobs)
	for i, k := range wanted {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = boot(ctx, k.name(), qemu(k, parts[i], packets), time.Duration(minutes)*time.Minute, progress)
		})
	}
	group.Wait()
	return errors.Join(keep(wanted, results), summarize(out, wanted, results))
}

// keep stores what the verifiers of the kernels that passed said, for the history of commits.
func keep(wanted []kernel, results []*result) error {
	object, err := verified.HashOf(verified.Object)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.err == nil {
			err = errors.Join(err, verified.Write(".", &verified.Report{Kernel: wanted[i].name(), Object: object, Processed: r.processed}))
		}
	}
	return err
}

// selected are the kernels that a list names, all if it is empty.
func selected(only string) ([]kernel, error) {
	if only == "" {
		return kernels, nil
	}
	var wanted []kernel
	for _, name := range strings.Split(only, ",") {
		before := len(wanted)
		var known []string
		for _, k := range kernels {
			known = append(known, k.name())
			if k.name() == name {
				wanted = append(wanted, k)
			}
		}
		if len(wanted) == before {
			return nil, fmt.Errorf("ONLY=%s: there are %s", name, strings.Join(known, ", "))
		}
	}
	return wanted, nil
}

func number(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: a number from 1 is wanted", name, text)
	}
	return n, nil
}

// console writes whole lines of several machines.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// prepare fetches the packages of each kernel and builds an image for it.
func prepare(ctx context.Context, wanted []kernel, progress *console) ([]*image, error) {
	packages := &archive{dir: cache, progress: progress}
	programs := make(map[string]map[string]string)
	var images []*image
	for _, k := range wanted {
		linux, err := packages.linux(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name(), err)
		}
		busybox, err := packages.busybox(ctx, k.arch)
		if err != nil {
			return nil, fmt.Errorf("busybox for %s: %w", k.arch, err)
		}
		if programs[k.arch] == nil {
			progress.say("building for %s", k.arch)
			if programs[k.arch], err = build(ctx, k.arch); err != nil {
				return nil, err
			}
		}
		i, err := newImage(ctx, k, linux, busybox, programs[k.arch])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name(), err)
		}
		images = append(images, i)
	}
	return images, nil
}

// summarize writes the table, and the last output of the machines of failed kernels.
func summarize(out io.Writer, wanted []kernel, results []*result) error {
	var failed []string
	for i, r := range results {
		if r.err != nil {
			failed = append(failed, wanted[i].name())
			fmt.Fprintf(out, "\n%s failed: %v\nthe end of its console, all of it in %s:\n%s\n",
				wanted[i].name(), r.err, filepath.Join(cache, wanted[i].name()+".log"), r.tail)
		}
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KERNEL\tARCH\tRELEASE\tMOST PROCESSED\tVECTORS\tRANDOM\tSEVERAL CPUS\tLAB CHECK\tMINUTES")
	for i, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\n", wanted[i].release, wanted[i].arch,
			orDash(r.release), orDash(r.mostProcessed()), orDash(r.vectors),
			orDash(r.random), orDash(r.threads), orDash(r.check), r.took.Minutes())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.New("failed on " + strings.Join(failed, ", "))
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// mostProcessed is the greatest count of a program, of which the verifier takes a million at most.
func (r *result) mostProcessed() string {
	if len(r.processed) == 0 {
		return ""
	}
	return fmt.Sprint(slices.Max(slices.Collect(maps.Values(r.processed))))
}
