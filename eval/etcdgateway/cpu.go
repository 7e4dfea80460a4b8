package etcdgateway

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/netcraq/netcraq/eval/cputime"
)

// CPU is CPU time for each request, in microseconds.
type CPU struct {
	Gateway float64 `json:"gateway"`
	Etcd    float64 `json:"etcd"`    // all members
	Clients float64 `json:"clients"` // this process
	Chain   float64 `json:"chain"`   // agents; programs in the kernel count for the process that they interrupt
}

// parts returns the parts of c.
func (c *CPU) parts() []*float64 { return []*float64{&c.Gateway, &c.Etcd, &c.Clients, &c.Chain} }

// used is the CPU time that the processes of a comparison have taken.
type used struct{ gateway, etcd, clients, chain time.Duration }

func (b *bench) used() (u used, err error) {
	var errs [4]error
	u.gateway, errs[0] = b.gateway.cpu()
	u.etcd, errs[1] = cputime.Of(b.members.PIDs()...)
	u.clients, errs[2] = cputime.Own()
	u.chain, errs[3] = cputime.Below(os.Getpid(), append(b.members.PIDs(), b.gateway.command.Process.Pid)...)
	return u, errors.Join(errs[:]...)
}

// since returns the CPU time since before, for each of n requests.
func (u used) since(before used, n int) CPU {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return CPU{
		Gateway: each(u.gateway - before.gateway), Etcd: each(u.etcd - before.etcd),
		Clients: each(u.clients - before.clients), Chain: each(u.chain - before.chain),
	}
}

// cpuTable is the CPU time of the loads on both sides.
func (r *Result) cpuTable() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "CPU time for each request, µs\tclient\tserver\tgateway\tetcd\tchain's agents\tclients\t")
	for i := range r.Loads {
		for _, kind := range []struct {
			client string
			load   *Load
		}{{"etcd's", &r.Loads[i]}, {"frames", &r.Frames.Loads[i]}} {
			for _, side := range []struct {
				server string
				cpu    *CPU
			}{{"gateway", &kind.load.Gateway.CPU}, {"etcd", &kind.load.Etcd.CPU}} {
				fmt.Fprintf(table, "%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t\n", kind.load.Name, kind.client, side.server,
					side.cpu.Gateway, side.cpu.Etcd, side.cpu.Chain, side.cpu.Clients)
			}
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	return text.String()
}
