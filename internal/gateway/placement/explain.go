package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Explanation says why a key has a place, or none.
type Explanation struct {
	Key       string  `json:"key"`
	Placed    bool    `json:"placed"`
	PlacedFor float64 `json:"placed_s"` // seconds; 0: not placed
	Counted   bool    `json:"counted"`  // the monitor counts its requests
	Reads     float64 `json:"reads"`    // decayed counts
	Writes    float64 `json:"writes"`
	ReadRate  float64 `json:"reads_per_s"`
	WriteRate float64 `json:"writes_per_s"`
	Source    string  `json:"source,omitempty"` // who counted these: one of the constants below; empty: nobody
	Gateway   Figures `json:"gateway"`          // the part of this gateway's clients
	Switch    Figures `json:"switch"`           // the part of others, which the chain's nodes counted
	HitShare  float64 `json:"hit_share"`        // of its reads, those that the chain answered
	Bytes     int     `json:"value_bytes"`
	Size      int     `json:"object_bytes"`
	Benefit   float64 `json:"benefit"`
	Threshold float64 `json:"threshold"` // benefit that it needs
	// PerKiB is the benefit for each KiB of the object, and Lowest the least of those that are placed for their benefit.
	PerKiB   float64 `json:"benefit_per_kib"`
	Lowest   float64 `json:"lowest_placed_per_kib"`
	Pinned   string  `json:"pinned_prefix,omitempty"`
	Excluded string  `json:"excluded_prefix,omitempty"`
	Reason   string  `json:"reason"`
}

// Values of [Explanation.Source].
const (
	SourceGateway = "gateway"
	SourceSwitch  = "switch"
	SourceBoth    = "both"
)

// sourceShare is the least share of all reads and writes for which a source is named.
const sourceShare = 0.01

const kib = 1 << 10

// sum returns the figures of both sources.
func (f Figures) sum(g Figures) Figures {
	return Figures{f.Reads + g.Reads, f.Writes + g.Writes, f.ReadRate + g.ReadRate, f.WriteRate + g.WriteRate}
}

// without returns the figures less others, down to zero.
func (f Figures) without(g Figures) Figures {
	return Figures{
		max(0, f.Reads-g.Reads), max(0, f.Writes-g.Writes), max(0, f.ReadRate-g.ReadRate), max(0, f.WriteRate-g.WriteRate),
	}
}

// count fills in the figures of both sources, and their sums.
func (e *Explanation) count(gateway, nodes Figures) {
	all := gateway.sum(nodes)
	e.Gateway, e.Switch = gateway, nodes
	e.Reads, e.Writes, e.ReadRate, e.WriteRate = all.Reads, all.Writes, all.ReadRate, all.WriteRate
	least := sourceShare * (all.Reads + all.Writes)
	switch ours, theirs := gateway.Reads+gateway.Writes, nodes.Reads+nodes.Writes; {
	case ours+theirs == 0:
		e.Source = ""
	case theirs < least:
		e.Source = SourceGateway
	case ours < least:
		e.Source = SourceSwitch
	default:
		e.Source = SourceBoth
	}
}

// prefixOf returns the prefix of a key among some, or nothing.
func prefixOf(key string, prefixes []string) string {
	if i := slices.IndexFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }); i >= 0 {
		return prefixes[i]
	}
	return ""
}

// describe fills in all but the reason.
func (o *Options) describe(u *Usage, placed Placed, now float64) Explanation {
	since, is := placed[u.Key]
	perByte, _ := o.worth(u, is)
	e := Explanation{
		Key: u.Key, Placed: is, Counted: true, Bytes: u.Bytes,
		Size: o.Size(u.Bytes), Benefit: o.Benefit(u), Threshold: o.Least, PerKiB: perByte * kib,
		Pinned: prefixOf(u.Key, o.Pinned), Excluded: prefixOf(u.Key, o.Excluded),
	}
	e.count(Figures{u.Reads, u.Writes, u.ReadRate, u.WriteRate}.without(u.Switch), u.Switch)
	if u.Reads > 0 {
		e.HitShare = min(1, u.Hits/u.Reads)
	}
	if is {
		e.PlacedFor, e.Threshold = now-since, 0
	}
	return e
}

// Explain says why a key has a place, or none.
func Explain(o *Options, placed Placed, usages []Usage, key string, now float64) Explanation {
	i := slices.IndexFunc(usages, func(u Usage) bool { return u.Key == key })
	if i < 0 {
		u := Usage{Key: key}
		e := o.describe(&u, placed, now)
		e.Counted, e.Size, e.Reason = false, 0, "it is not among the keys that are used most"
		return e
	}
	u := &usages[i]
	e := o.describe(u, placed, now)
	e.Lowest = math.Inf(1)
	for j := range usages {
		other := &usages[j]
		if since, is := placed[other.Key]; is && now-since >= o.Residence && !o.Pins(other.Key) {
			perByte, _ := o.worth(other, true)
			e.Lowest = min(e.Lowest, perByte*kib)
		}
	}
	if math.IsInf(e.Lowest, 1) {
		e.Lowest = 0
	}
	e.Reason = o.reason(u, &e)
	return e
}

func (o *Options) reason(u *Usage, e *Explanation) string {
	switch _, enough := o.worth(u, e.Placed); {
	case u.Unfit:
		return "it has a lease, so etcd may delete it by itself, or its value did not fit"
	case u.Bytes > o.Largest:
		return fmt.Sprintf("a value may have %d bytes", o.Largest)
	case e.Excluded != "":
		return "its prefix is excluded"
	case o.Pins(u.Key):
		return "its prefix is pinned"
	case !enough:
		return fmt.Sprintf("a benefit of %.2f/s would be worth a place", e.Threshold)
	case e.Placed && e.PlacedFor < o.Residence:
		return fmt.Sprintf("it was placed lately: it stays for %.0f s at least", o.Residence)
	case e.Placed:
		return "it brings enough for each byte"
	}
	return "others bring more for each byte"
}

// String is the explanation in one line.
func (e Explanation) String() string {
	state := "not placed"
	if e.Placed {
		state = fmt.Sprintf("placed for %.0f s", e.PlacedFor)
	}
	if !e.Counted {
		return state + ": " + e.Reason
	}
	return fmt.Sprintf("%s: %.2f reads and %.2f writes a second (source: %s) bring %.2f, its object takes %d bytes; %s", state,
		e.ReadRate, e.WriteRate, cmp.Or(e.Source, "none"), e.Benefit, e.Size, e.Reason)
}

// Hottest describes the keys that are read and written most, the hottest first.
func Hottest(o *Options, placed Placed, usages []Usage, most int, now float64) []Explanation {
	list := make([]Explanation, 0, len(usages))
	for i := range usages {
		e := o.describe(&usages[i], placed, now)
		e.Reason = o.reason(&usages[i], &e)
		list = append(list, e)
	}
	slices.SortFunc(list, hotter)
	return list[:min(most, len(list))]
}

// Together joins lists of several gateways: counts are summed, and the first gateway that has placed a key speaks for it.
func Together(lists [][]Explanation) []Explanation {
	byKey := make(map[string][]Explanation)
	for _, list := range lists {
		for _, e := range list {
			byKey[e.Key] = append(byKey[e.Key], e)
		}
	}
	all := make([]Explanation, 0, len(byKey))
	for _, same := range byKey {
		all = append(all, join(same))
	}
	slices.SortFunc(all, hotter)
	return all
}

// join joins what gateways say of one key. The nodes of the chain have counted for one gateway what the others read and
// wrote there: that is left out of the sums.
func join(same []Explanation) Explanation {
	speaks := max(0, slices.IndexFunc(same, func(e Explanation) bool { return e.Placed }))
	joined := same[speaks]
	var ours, others, nodes Figures // of the gateway that speaks, of others, and of the nodes of the chain
	var hits, benefit float64
	for i := range same {
		e := &same[i]
		hits, benefit, nodes = hits+e.HitShare*e.Reads, benefit+e.Benefit, nodes.sum(e.Switch)
		gateway := Figures{e.Reads, e.Writes, e.ReadRate, e.WriteRate}.without(e.Switch)
		if i == speaks {
			ours = gateway
		} else {
			others = others.sum(gateway)
		}
	}
	left := nodes.without(others)
	twice := nodes.without(left)
	joined.count(ours.sum(others), left)
	joined.Benefit, joined.HitShare = benefit-twice.ReadRate+Defaults().WriteCost*twice.WriteRate, 0
	if joined.Reads > 0 {
		joined.HitShare = max(0, hits-twice.Reads) / joined.Reads
	}
	return joined
}

// hotter orders keys, the hottest first.
func hotter(a, b Explanation) int {
	return cmp.Or(cmp.Compare(b.Reads+b.Writes, a.Reads+a.Writes), cmp.Compare(a.Key, b.Key))
}
