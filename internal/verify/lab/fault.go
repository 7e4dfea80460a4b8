package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Kind is a kind of fault that affects random frames on links.
type Kind string

// The kinds of random faults.
const (
	Loss      Kind = "loss"
	Duplicate Kind = "duplicate"
	Corrupt   Kind = "corrupt" // flips one bit behind the Ethernet header
)

// Where selects links. The zero value selects all.
type Where struct {
	Link string // "a-b"
	Host string // all links of a host
}

// Traffic selects the traffic that a fault affects.
type Traffic string

// Traffic as the wires distinguish it: requests and messages between nodes use UDP, controllers and
// agents use TCP.
const (
	AllTraffic     Traffic = "all"
	DataTraffic    Traffic = "data"
	ControlTraffic Traffic = "control"
)

// kinds of traffic, as in bpf/tools/fault.bpf.c.
const dataBit, controlBit uint32 = 1, 2

func (t Traffic) bits() (uint32, error) {
	switch t {
	case "", AllTraffic:
		return dataBit | controlBit, nil
	case DataTraffic:
		return dataBit, nil
	case ControlTraffic:
		return controlBit, nil
	}
	return 0, fmt.Errorf("traffic %q: want %s, %s or %s", t, AllTraffic, DataTraffic, ControlTraffic)
}

func trafficOf(bits uint32) Traffic {
	switch bits {
	case dataBit:
		return DataTraffic
	case controlBit:
		return ControlTraffic
	}
	return AllTraffic
}

// Direction is one direction of a link: the fault rates in percent and the counters so far.
type Direction struct {
	From       string  `json:"from"`
	To         string  `json:"to"`
	Down       bool    `json:"down"`
	Loss       float64 `json:"loss_percent"`
	Duplicate  float64 `json:"duplicate_percent"`
	Corrupt    float64 `json:"corrupt_percent"`
	Traffic    Traffic `json:"traffic"` // traffic that the rates affect
	Off        bool    `json:"off"`     // one of the hosts is powered off
	Frames     uint64  `json:"frames"`
	Lost       uint64  `json:"lost"`
	Duplicated uint64  `json:"duplicated"`
	Corrupted  uint64  `json:"corrupted"`
	Cut        uint64  `json:"cut"` // lost to a partition
}

// Faulty reports whether a fault is set or has been counted in this direction.
func (d *Direction) Faulty() bool {
	return d.Down || d.Off || d.Loss+d.Duplicate+d.Corrupt > 0 || d.Lost+d.Duplicated+d.Corrupted+d.Cut > 0
}

// Faults holds all faults of a lab's links.
type Faults struct {
	Directions []Direction `json:"directions"`
	Partitions []Partition `json:"partitions,omitempty"`
}

// off reports whether a host is powered off; then no frame crosses its links.
func (f *Faults) off(host string) bool {
	for _, d := range f.Directions {
		if d.From == host && !d.Off {
			return false
		}
	}
	return slices.ContainsFunc(f.Directions, func(d Direction) bool { return d.From == host })
}

const perPercent = 10_000 // frames per million

// CheckPercent reports an invalid fault rate.
func (k Kind) CheckPercent(percent float64) error {
	if math.IsNaN(percent) || percent < 0 || percent > 100 {
		return fmt.Errorf("%s: want a percentage from 0 to 100, not %v", k, percent)
	}
	return nil
}

// StrikeOnly restricts the random faults of the selected links to some traffic.
func (l *Lab) StrikeOnly(traffic Traffic, where Where) error {
	bits, err := traffic.bits()
	if err != nil {
		return err
	}
	links, err := l.selected(where)
	if err != nil {
		return err
	}
	return l.changeRules(links, func(r *wireRule) error { r.Spared = (dataBit | controlBit) &^ bits; return nil })
}

// SetFault sets the rate of one kind of fault in percent, in both directions of the selected links;
// 0 clears it.
func (l *Lab) SetFault(kind Kind, percent float64, where Where) error {
	if err := kind.CheckPercent(percent); err != nil {
		return err
	}
	links, err := l.selected(where)
	if err != nil {
		return err
	}
	return l.changeRules(links, func(r *wireRule) error {
		chance := uint32(math.Round(percent * perPercent))
		switch kind {
		case Loss:
			r.Loss = chance
		case Duplicate:
			r.Duplicate = chance
		case Corrupt:
			r.Corrupt = chance
		default:
			return fmt.Errorf("unknown kind of fault %q: want %s, %s or %s", kind, Loss, Duplicate, Corrupt)
		}
		return nil
	})
}

func (l *Lab) changeRules(links []Link, change func(*wireRule) error) error {
	w, err := l.openWires()
	if err != nil {
		return err
	}
	defer w.close()
	for _, link := range links {
		for _, device := range []string{wireDevice(link.A, link.B), wireDevice(link.B, link.A)} {
			var r wireRule
			if err := w.rules.Lookup(w.index[device], &r); err != nil {
				return err
			}
			if err := change(&r); err != nil {
				return err
			}
			if err := w.rules.Put(w.index[device], r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Lab) selected(where Where) ([]Link, error) {
	if where.Link != "" {
		link, ok := l.Plan.Link(where.Link)
		if !ok {
			return nil, fmt.Errorf("no link %q; links are %v", where.Link, l.Plan.Links)
		}
		return []Link{link}, nil
	}
	if where.Host == "" {
		return l.Plan.Links, nil
	}
	if _, err := l.Host(where.Host); err != nil {
		return nil, err
	}
	var links []Link
	for _, link := range l.Plan.Links {
		if _, ok := link.Peer(where.Host); ok {
			links = append(links, link)
		}
	}
	return links, nil
}

// Faults reads the links' faults and counters.
func (l *Lab) Faults() (Faults, error) {
	var f Faults
	w, err := l.openWires()
	if errors.Is(err, errNoWires) {
		w = nil
	} else if err != nil {
		return f, err
	} else {
		defer w.close()
	}
	for _, link := range l.Plan.Links {
		for _, end := range []struct{ from, to string }{{link.A, link.B}, {link.B, link.A}} {
			d := Direction{From: end.from, To: end.to, Down: l.down[link]}
			if w != nil {
				if err := d.read(w); err != nil {
					return f, err
				}
			}
			f.Directions = append(f.Directions, d)
		}
	}
	f.Partitions = l.state.Partitions
	return f, nil
}

func (d *Direction) read(w *wires) error {
	device := wireDevice(d.From, d.To)
	var r wireRule
	if err := w.rules.Lookup(w.index[device], &r); err != nil {
		return err
	}
	c, err := w.count(device)
	if err != nil {
		return err
	}
	d.Loss, d.Duplicate, d.Corrupt = float64(r.Loss)/perPercent, float64(r.Duplicate)/perPercent,
		float64(r.Corrupt)/perPercent
	d.Traffic, d.Off = trafficOf((dataBit|controlBit)&^r.Spared), r.Off != 0
	d.Frames, d.Lost, d.Duplicated, d.Corrupted, d.Cut = c.Frames, c.Lost, c.Duplicated, c.Corrupted, c.Cut
	return nil
}

// SetLink takes a link down or up at both ends. Routes change at once, as with a routing protocol.
func (l *Lab) SetLink(ctx context.Context, name string, up bool) error {
	link, ok := l.Plan.Link(name)
	if !ok {
		return fmt.Errorf("no link %q; links are %v", name, l.Plan.Links)
	}
	return l.change(ctx, func(s *state) error {
		s.Down = slices.DeleteFunc(s.Down, func(d Link) bool { return d == link })
		if !up {
			s.Down = append(s.Down, link)
		}
		if err := s.write(); err != nil {
			return err
		}
		l.down = downLinks(s)
		for _, end := range []string{link.A, link.B} {
			peer, _ := link.Peer(end)
			if err := l.switchDevice(end, l.device(end, peer), up); err != nil {
				return err
			}
		}
		for _, h := range l.Plan.Hosts {
			if err := l.setRoutes(h); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Lab) switchDevice(host, device string, up bool) error {
	if up {
		return l.raise(host, device)
	}
	nl, err := l.handle(host)
	if err != nil {
		return err
	}
	defer nl.Close()
	dev, err := nl.LinkByName(device)
	if err != nil {
		return err
	}
	return nl.LinkSetDown(dev)
}

// ClearFaults clears all faults of links. Nodes that were killed or powered off stay down.
func (l *Lab) ClearFaults(ctx context.Context) error {
	for link := range downLinks(l.state) {
		if err := l.SetLink(ctx, link.String(), true); err != nil {
			return err
		}
	}
	if l.options.Direct {
		return nil
	}
	if err := l.Partition(ctx); err != nil {
		return err
	}
	return l.changeRules(l.Plan.Links, func(r *wireRule) error { *r = wireRule{Off: r.Off}; return nil })
}
