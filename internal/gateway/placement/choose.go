package placement

import (
	"cmp"
	"slices"
	"strings"
)

// Options are the rules for the choice of keys.
type Options struct {
	Capacity  int      // bytes of all objects
	Overhead  int      // bytes of an object beside its value
	Largest   int      // longest value that fits
	WriteCost float64  // cost of a write of a placed key, in reads
	Least     float64  // least benefit for which a key is placed, in reads for each second
	Stay      float64  // factor by which a placed key is preferred to one that is not
	Residence float64  // seconds for which a key stays at least
	Pinned    []string // prefixes of keys that are always placed
	Excluded  []string // prefixes of keys that are never placed
}

// Defaults are options for a small cluster.
func Defaults() Options {
	return Options{
		Capacity: 64 << 10, Overhead: 192, Largest: 4 << 10, WriteCost: 0.25, Least: 0.01, Stay: 1.2, Residence: 1,
	}
}

// Placed is a key that has a place, and since when.
type Placed map[string]float64

// Decision is the set of keys to place and to remove.
type Decision struct {
	Place, Remove []string
	// Urgent reports that a key in Remove must not stay: it does not fit, or the placed keys, whose values may have grown, take
	// more than the capacity.
	Urgent bool
}

// Writes returns how many writes of the directory the decision takes.
func (d *Decision) Writes() (n int) {
	for _, keys := range [][]string{d.Place, d.Remove} {
		if len(keys) > 0 {
			n++
		}
	}
	return n
}

// Size returns the memory of an object with a value of this length.
func (o *Options) Size(bytes int) int { return o.Overhead + bytes }

// Benefit returns the benefit of placing a key, in reads for each second. Writes count as cost.
func (o *Options) Benefit(u *Usage) float64 { return u.ReadRate - o.WriteCost*u.WriteRate }

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// Pins reports whether a key is placed at its first read, whatever its benefit is. An empty prefix pins all keys.
func (o *Options) Pins(key string) bool { return hasPrefix(key, o.Pinned) }

// fits reports whether a key may be placed at all.
func (o *Options) fits(u *Usage) bool {
	return !u.Unfit && u.Bytes <= o.Largest && !hasPrefix(u.Key, o.Excluded)
}

// worth returns the benefit of a key for each byte, and whether the benefit is enough to place the key.
func (o *Options) worth(u *Usage, placed bool) (perByte float64, enough bool) {
	benefit, least := o.Benefit(u), o.Least
	if placed { // it stays while nothing better needs the room, unless its writes cost more than its reads bring
		benefit, least = benefit*o.Stay, 0
	}
	return benefit / float64(o.Size(u.Bytes)), benefit >= least
}

// candidate is a key that asks for a place.
type candidate struct {
	Usage
	perByte float64
	rank    int // lower ones come first
	placed  bool
}

// Ranks of candidates.
const (
	pinned = iota
	young  // placed so lately that it stays
	other
)

// before orders candidates by rank, then by benefit for each byte.
func before(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.perByte, a.perByte), cmp.Compare(a.Key, b.Key))
}

// Choose says which keys should be placed and which should go. A key that is unknown to the monitor brings nothing.
func Choose(o *Options, placed Placed, usages []Usage, now float64) Decision {
	candidates, chosen := make([]candidate, 0, len(usages)), make(map[string]bool)
	used, unfit := 0, false
	for _, u := range usages {
		since, is := placed[u.Key]
		if is {
			used += o.Size(u.Bytes)
		}
		c := candidate{Usage: u, rank: other, placed: is}
		var enough bool
		c.perByte, enough = o.worth(&u, is)
		switch {
		case !o.fits(&u):
			unfit = unfit || is
			continue
		case o.Pins(u.Key):
			c.rank = pinned
		case is && now-since < o.Residence:
			c.rank = young
		case !enough:
			continue
		}
		candidates = append(candidates, c)
	}
	slices.SortFunc(candidates, before)
	left := o.Capacity
	d := Decision{Urgent: unfit || used > o.Capacity || o.Capacity <= 0 && len(placed) > 0}
	for _, c := range candidates {
		size := o.Size(c.Bytes)
		if size > left {
			continue
		}
		left -= size
		chosen[c.Key] = true
		if !c.placed {
			d.Place = append(d.Place, c.Key)
		}
	}
	for key := range placed {
		if !chosen[key] {
			d.Remove = append(d.Remove, key)
		}
	}
	slices.Sort(d.Remove)
	return d
}
