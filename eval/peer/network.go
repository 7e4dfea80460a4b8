package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// network is the lab of a system. Stores embed it.
type network struct {
	name    string // name of the system
	lab     *lab.Lab
	lossy   bool
	undo    []func() error // cleanup before the lab is removed, last first
	details []string       // settings
	closing sync.Once
	closed  error
}

// maxLabs bounds the systems that run at once on a machine, in all processes.
const maxLabs = 32

// labName returns the name of the i-th lab of peers. A killed process leaves its lab; the next one
// with the name removes it.
func labName(i int) string { return fmt.Sprintf("peer%d", i) }

// newNetwork makes a line of hosts, with the machine next to the first.
func newNetwork(ctx context.Context, name string, o *Options) (*network, error) {
	hosts, xdp := o.members(name), name == NetCRAQ
	options := lab.Options{Topology: lab.Line, Nodes: hosts, Direct: !o.Lossy, Offloads: !xdp, Owned: true}
	for i := range maxLabs {
		options.Name = labName(i)
		l, err := lab.Up(ctx, options)
		if errors.Is(err, lab.ErrExists) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n := &network{name: name, lab: l, lossy: o.Lossy}
		n.detail("network: %s, clients on the machine next to the first", n.describe(hosts, xdp))
		return n, nil
	}
	return nil, fmt.Errorf("%d other systems run on this machine: stop one first", maxLabs)
}

func (n *network) describe(hosts int, xdp bool) string {
	links := "veth pairs with all offloads"
	switch {
	case n.lossy:
		links = "veth pairs through XDP programs that may lose packets"
	case xdp:
		links = "veth pairs as XDP needs them, checksums in software"
	}
	if hosts == 1 {
		return "one network namespace, " + links
	}
	return fmt.Sprintf("%d network namespaces in a line, %s", hosts, links)
}

// detail appends to the settings.
func (n *network) detail(format string, arguments ...any) {
	n.details = append(n.details, fmt.Sprintf(format, arguments...))
}

// onClose registers a function that Close calls before those registered earlier.
func (n *network) onClose(f func() error) { n.undo = append(n.undo, f) }

// Name implements [Store].
func (n *network) Name() string { return n.name }

// Settings implements [Store].
func (n *network) Settings() []string { return n.details }

// host returns the address and the name of the i-th server's host.
func (n *network) host(i int) (addr netip.Addr, name string) {
	h := n.lab.Plan.With(lab.RoleNode)[i]
	return h.Addr, h.Name
}

// hosts returns the number of server hosts.
func (n *network) hosts() int { return len(n.lab.Plan.With(lab.RoleNode)) }

// SetLoss implements [Store].
func (n *network) SetLoss(percent float64) error {
	if !n.lossy {
		return fmt.Errorf("%s was opened on lossless links: open it with Options.Lossy", n.name)
	}
	return n.lab.SetFault(lab.Loss, percent, lab.Where{})
}

// Close implements [Store].
func (n *network) Close() error {
	n.closing.Do(func() {
		var failed []error
		for i := len(n.undo) - 1; i >= 0; i-- {
			failed = append(failed, n.undo[i]())
		}
		_, err := lab.Down(context.Background(), n.lab.Name)
		n.closed = errors.Join(append(failed, err)...)
	})
	return n.closed
}
