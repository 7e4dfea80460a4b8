package failover

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/client"
	"github.com/netcraq/netcraq/eval/baseline/control"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

// netcraqPaperHarness is a chain of NetCRAQ as published.
type netcraqPaperHarness struct {
	fabric  *fabric.Fabric
	control control.NetCRAQPaper
}

func openNetCRAQPaper(o *Options) (harness, error) {
	f, err := fabric.Open(o.Seed)
	if err != nil {
		return nil, err
	}
	gate := new(writeGate)
	f.SetMiddle(gate)
	r := &netcraqPaperHarness{fabric: f, control: control.NetCRAQPaper{
		Chain: chainAddrs(), Keys: uint32(o.Objects), Switches: make(map[netip.Addr]control.NetCRAQPaperSwitch),
		PerSecond: o.PerSecond,
		Disable: func(disabled bool) error {
			f.With(func() { gate.disabled = disabled })
			return nil
		},
	}}
	tail := chainAddrs()[chainNodes-1]
	for i, at := range append(chainAddrs(), reserve()) {
		config := netcraqpaper.Config{
			Self:     at,
			Tail:     tail,
			Keys:     uint32(o.Objects),
			Versions: netcraqpaper.DefaultVersions,
		}
		switch {
		case at == tail:
			config.Group = chainAddrs()[:i]
		case at == reserve():
			config.Next = tail
		default:
			config.Next = chainAddrs()[i+1]
		}
		n, err := netcraqpaper.New(config)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Add(at, n)
		s := &netcraqPaperSwitch{f, n}
		if err := s.Install(0, make([]netcraqpaper.Value, o.Objects)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		r.control.Switches[at] = s
	}
	return r, nil
}

// writeGate is the switch in the middle, which drops writes while they are disabled.
type writeGate struct{ disabled bool }

// Receive implements [fabric.Machine].
func (g *writeGate) Receive(p baseline.Packet, out []baseline.Packet) []baseline.Packet {
	if g.disabled && p.To.Port() == netcraqpaper.Port {
		if m, err := netcraqpaper.Decode(p.Payload); err == nil && m.Op == netcraqpaper.Write {
			return out
		}
	}
	return append(out, p)
}

func (r *netcraqPaperHarness) network() *fabric.Fabric { return r.fabric }

func (r *netcraqPaperHarness) writer(object int) (*probe, error) {
	c, err := client.NewNetCRAQPaper(chainAddrs(), 0, clientOptions(r))
	if err != nil {
		return nil, err
	}
	number, acknowledged := uint64(0), uint64(0)
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		number++
		var value netcraqpaper.Value
		binary.BigEndian.PutUint64(value[:], number)
		err := c.Write(ctx, uint32(object), value)
		if err == nil {
			acknowledged = number
		}
		return err
	}, kept: func(ctx context.Context) (bool, error) {
		value, err := c.Read(ctx, uint32(object))
		return err == nil && binary.BigEndian.Uint64(value[:]) >= acknowledged, err
	}}, nil
}

// reader begins at each node of the chain in turn.
func (r *netcraqPaperHarness) reader(object int) (*probe, error) {
	c, err := client.NewNetCRAQPaper(chainAddrs(), object%chainNodes, clientOptions(r))
	if err != nil {
		return nil, err
	}
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		_, err := c.Read(ctx, uint32(object))
		return err
	}}, nil
}

func (r *netcraqPaperHarness) failover(failed netip.Addr) error { return r.control.Failover(failed) }

func (r *netcraqPaperHarness) recover(ctx context.Context, failed, by netip.Addr) error {
	return r.control.Recover(ctx, by, slices.Index(chainAddrs(), failed))
}

// netcraqPaperSwitch is the control plane's hand at a machine.
type netcraqPaperSwitch struct {
	fabric *fabric.Fabric
	node   *netcraqpaper.Node
}

func (s *netcraqPaperSwitch) Configure(next, tail netip.Addr, group []netip.Addr) (err error) {
	s.fabric.With(func() {
		var state netcraqpaper.State
		if state, err = s.node.State(); err == nil {
			state.Next, state.Tail, state.Group = next, tail, group
			err = s.node.Load(state)
		}
	})
	return err
}

func (s *netcraqPaperSwitch) Newest(from uint32, count int) (values []netcraqpaper.Value, err error) {
	s.fabric.With(func() {
		for i := range uint32(count) {
			o := s.node.Object(from + i)
			values = append(values, o.Cells[o.ReadIndex])
		}
	})
	return values, nil
}

func (s *netcraqPaperSwitch) Install(from uint32, values []netcraqpaper.Value) (err error) {
	s.fabric.With(func() {
		for i, v := range values {
			err = errors.Join(err, s.node.Install(from+uint32(i), v))
		}
	})
	return err
}
