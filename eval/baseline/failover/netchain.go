package failover

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline/client"
	"github.com/netcraq/netcraq/eval/baseline/control"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// chainHarness is a NetChain chain. The switch in the middle is the neighbour of every node and
// holds the failure rules. Every node holds them too, for the packets that it sends itself.
type chainHarness struct {
	fabric  *fabric.Fabric
	control control.NetChain
}

// objectKey spreads the objects over the groups in turn.
func objectKey(object int) (k netchain.Key) {
	binary.BigEndian.PutUint32(k[:], uint32(object))
	binary.BigEndian.PutUint16(k[netchain.KeyBytes-2:], uint16(object))
	return k
}

// keys are those of a group.
func (o *Options) keys(group uint16) (keys []netchain.Key) {
	for i := range o.Objects {
		if k := objectKey(i); k.Group(o.Groups) == group {
			keys = append(keys, k)
		}
	}
	return keys
}

func openChain(o *Options) (harness, error) {
	f, err := fabric.Open(o.Seed)
	if err != nil {
		return nil, err
	}
	r := &chainHarness{fabric: f, control: control.NetChain{
		Chain: chainAddrs(), Groups: o.Groups, Keys: o.keys, Switches: make(map[netip.Addr]control.NetChainSwitch),
		PerSecond: o.PerSecond,
	}}
	for _, at := range append(chainAddrs(), reserve()) {
		n := new(netchain.Node)
		if err := n.Load(filled(at, o)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Add(at, n)
		r.control.Switches[at] = &chainSwitch{f, n}
	}
	middle, err := netchain.New(
		netchain.Config{
			Self:       fabric.NodeAddr(chainNodes + 1),
			Wide:       true,
			Slots:      1,
			ValueBytes: netchain.CompareBytes,
			Groups:     o.Groups,
		},
	)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.SetMiddle(middle)
	r.control.Neighbours = append(r.control.Neighbours, &chainSwitch{f, middle})
	for _, s := range r.control.Switches {
		r.control.Neighbours = append(r.control.Neighbours, s)
	}
	return r, nil
}

// filled returns the state of a node that has all objects. The spare node has room for them, and
// values that no client wrote.
func filled(at netip.Addr, o *Options) netchain.State {
	s := netchain.State{
		Config: netchain.Config{
			Self:       at,
			Wide:       true,
			Slots:      o.Objects,
			ValueBytes: netchain.CompareBytes,
			Groups:     o.Groups,
		},
		Index: make(map[netchain.Key]uint32, o.Objects), Cells: make([]netchain.Cell, o.Objects),
	}
	for i := range o.Objects {
		s.Index[objectKey(i)] = uint32(i)
		if at != reserve() {
			s.Cells[i] = netchain.Cell{Seq: 1, Value: make([]byte, netchain.CompareBytes)}
		}
	}
	return s
}

func (r *chainHarness) network() *fabric.Fabric { return r.fabric }

func (r *chainHarness) writer(object int) (*probe, error) {
	c, err := client.NewNetChain(r.control.Chain, true, clientOptions(r))
	if err != nil {
		return nil, err
	}
	key, number, acknowledged := objectKey(object), uint64(0), uint64(0)
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		number++
		_, err := c.Write(ctx, key, binary.BigEndian.AppendUint64(make([]byte, 8, netchain.CompareBytes), number))
		if err == nil {
			acknowledged = number
		}
		return err
	}, kept: func(ctx context.Context) (bool, error) {
		a, err := c.Read(ctx, key)
		return err == nil && binary.BigEndian.Uint64(a.Value[8:]) >= acknowledged, err
	}}, nil
}

func (r *chainHarness) reader(object int) (*probe, error) {
	c, err := client.NewNetChain(r.control.Chain, true, clientOptions(r))
	if err != nil {
		return nil, err
	}
	key := objectKey(object)
	return &probe{close: c.Close, do: func(ctx context.Context) error {
		_, err := c.Read(ctx, key)
		return err
	}}, nil
}

func (r *chainHarness) failover(failed netip.Addr) error { return r.control.Failover(failed) }

func (r *chainHarness) recover(ctx context.Context, failed, by netip.Addr) error {
	return r.control.Recover(ctx, failed, by, nil)
}

// chainSwitch is the control plane's hand at a machine.
type chainSwitch struct {
	fabric *fabric.Fabric
	node   *netchain.Node
}

func (s *chainSwitch) SetRule(t netchain.Target, r netchain.Rule) (err error) {
	s.fabric.With(func() { err = s.node.SetRule(t, r) })
	return err
}

func (s *chainSwitch) Export(keys []netchain.Key) (entries []control.Entry, err error) {
	s.fabric.With(func() {
		for _, k := range keys {
			if cell, ok := s.node.Lookup(k); ok {
				entries = append(entries, control.Entry{Key: k, Seq: cell.Seq, Value: bytes.Clone(cell.Value)})
			}
		}
	})
	return entries, nil
}

func (s *chainSwitch) Import(entries []control.Entry) (err error) {
	s.fabric.With(func() {
		for _, e := range entries {
			err = errors.Join(err, s.node.Insert(e.Key, e.Seq, e.Value))
		}
	})
	return err
}
