package failover

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/client"
	"github.com/netcraq/netcraq/internal/eval/baseline/control"
	"github.com/netcraq/netcraq/internal/eval/baseline/fabric"
	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

// publishedHarness is a chain of NetCRAQ as published.
type publishedHarness struct {
	fabric  *fabric.Fabric
	control control.Published
}

func openPublished(o *Options) (harness, error) {
	f, err := fabric.Open(o.Seed)
	if err != nil {
		return nil, err
	}
	gate := new(writeGate)
	f.SetMiddle(gate)
	r := &publishedHarness{fabric: f, control: control.Published{
		Chain: chainAddrs(), Keys: uint32(o.Objects), Switches: make(map[netip.Addr]control.PublishedSwitch), PerSecond: o.PerSecond,
		Disable: func(disabled bool) error {
			f.With(func() { gate.disabled = disabled })
			return nil
		},
	}}
	tail := chainAddrs()[chainNodes-1]
	for i, at := range append(chainAddrs(), reserve()) {
		config := published.Config{Self: at, Tail: tail, Keys: uint32(o.Objects), Versions: published.DefaultVersions}
		switch {
		case at == tail:
			config.Group = chainAddrs()[:i]
		case at == reserve():
			config.Next = tail
		default:
			config.Next = chainAddrs()[i+1]
		}
		n, err := published.New(config)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Add(at, n)
		s := &publishedSwitch{f, n}
		if err := s.Install(0, make([]published.Value, o.Objects)); err != nil {
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
	if g.disabled && p.To.Port() == published.Port {
		if m, err := published.Decode(p.Payload); err == nil && m.Op == published.Write {
			return out
		}
	}
	return append(out, p)
}

func (r *publishedHarness) network() *fabric.Fabric { return r.fabric }

func (r *publishedHarness) writer(object int) (*probe, error) {
	c, err := client.NewPublished(chainAddrs(), 0, clientOptions(r))
	if err != nil {
		return nil, err
	}
	number, acknowledged := uint64(0), uint64(0)
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		number++
		var value published.Value
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
func (r *publishedHarness) reader(object int) (*probe, error) {
	c, err := client.NewPublished(chainAddrs(), object%chainNodes, clientOptions(r))
	if err != nil {
		return nil, err
	}
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		_, err := c.Read(ctx, uint32(object))
		return err
	}}, nil
}

func (r *publishedHarness) failover(failed netip.Addr) error { return r.control.Failover(failed) }

func (r *publishedHarness) recover(ctx context.Context, failed, by netip.Addr) error {
	return r.control.Recover(ctx, by, slices.Index(chainAddrs(), failed))
}

// publishedSwitch is the control plane's hand at a machine.
type publishedSwitch struct {
	fabric *fabric.Fabric
	node   *published.Node
}

func (s *publishedSwitch) Configure(next, tail netip.Addr, group []netip.Addr) (err error) {
	s.fabric.With(func() {
		var state published.State
		if state, err = s.node.State(); err == nil {
			state.Next, state.Tail, state.Group = next, tail, group
			err = s.node.Load(state)
		}
	})
	return err
}

func (s *publishedSwitch) Newest(from uint32, count int) (values []published.Value, err error) {
	s.fabric.With(func() {
		for i := range uint32(count) {
			o := s.node.Object(from + i)
			values = append(values, o.Cells[o.ReadIndex])
		}
	})
	return values, nil
}

func (s *publishedSwitch) Install(from uint32, values []published.Value) (err error) {
	s.fabric.With(func() {
		for i, v := range values {
			err = errors.Join(err, s.node.Install(from+uint32(i), v))
		}
	})
	return err
}
