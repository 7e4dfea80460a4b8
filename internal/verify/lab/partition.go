package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
)

// Partition separates groups of hosts, on all paths between them. Hosts in no group still reach all
// hosts, and hosts of one group reach each other.
type Partition struct {
	Groups  [][]string `json:"groups"`
	OneWay  bool       `json:"one_way,omitempty"` // only packets from a group to a later one are lost
	Traffic Traffic    `json:"traffic,omitempty"` // lost traffic; empty: all
}

// String returns the partition in the form that [ParsePartition] reads, followed by its traffic.
func (p Partition) String() string {
	var groups []string
	for _, group := range p.Groups {
		groups = append(groups, strings.Join(group, ","))
	}
	text := strings.Join(groups, map[bool]string{false: "|", true: ">"}[p.OneWay])
	if p.Traffic != "" && p.Traffic != AllTraffic {
		text += " (" + string(p.Traffic) + ")"
	}
	return text
}

// ParsePartition parses groups as given on the command line: n1,n2|n3, or n1>n2,n3 to lose only
// packets from n1.
func ParsePartition(text string) (Partition, error) {
	p := Partition{OneWay: strings.Contains(text, ">")}
	separator := "|"
	if p.OneWay {
		separator = ">"
	}
	if p.OneWay && strings.Contains(text, "|") {
		return p, fmt.Errorf("partition %q: use either | (both directions) or > (one direction)", text)
	}
	for _, group := range strings.Split(text, separator) {
		p.Groups = append(p.Groups, strings.Split(group, ","))
	}
	return p, nil
}

// Partition replaces the partitions in force. Without arguments it removes all. Partitions may
// overlap.
func (l *Lab) Partition(ctx context.Context, partitions ...Partition) error {
	cuts := map[wirePair]uint32{}
	for _, p := range partitions {
		if err := l.addCuts(cuts, p); err != nil {
			return err
		}
	}
	w, err := l.openWires()
	if err != nil {
		return err
	}
	defer w.close()
	return l.change(ctx, func(s *state) error {
		s.Partitions = slices.Clone(partitions)
		if err := s.write(); err != nil {
			return err
		}
		return w.setCuts(cuts)
	})
}

// addCuts adds the pairs that a partition cuts.
func (l *Lab) addCuts(cuts map[wirePair]uint32, p Partition) error {
	bits, err := p.Traffic.bits()
	if err != nil {
		return err
	}
	if len(p.Groups) < 2 {
		return errors.New("partition: want at least two groups, as in n1,n2|n3")
	}
	group := map[[4]byte]int{}
	for i, names := range p.Groups {
		for _, name := range names {
			h, err := l.Host(name)
			if err != nil {
				return err
			}
			if _, twice := group[h.Addr.As4()]; twice {
				return fmt.Errorf("partition: %s is in two groups", name)
			}
			group[h.Addr.As4()] = i
		}
	}
	for from, i := range group {
		for to, j := range group {
			if i < j || i > j && !p.OneWay {
				cuts[wirePair{from, to}] |= bits
			}
		}
	}
	return nil
}

// setCuts makes the wires cut exactly these pairs.
func (w *wires) setCuts(cuts map[wirePair]uint32) error {
	for pair, bits := range cuts {
		if err := w.cuts.Put(pair, bits); err != nil {
			return err
		}
	}
	var pair wirePair
	var bits uint32
	var ended []wirePair
	entries := w.cuts.Iterate()
	for entries.Next(&pair, &bits) {
		if cuts[pair] == 0 {
			ended = append(ended, pair)
		}
	}
	if err := entries.Err(); err != nil {
		return err
	}
	for _, pair := range ended {
		if err := w.cuts.Delete(pair); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}
