package papers

import (
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

// bundles are our series with several requests in each frame. They are shown beside the
// comparisons: the published NetChain and NetCRAQ have no such mode.
type bundles struct {
	name    string
	of      string // the series with one request a frame
	beside  string // the published NetCRAQ's series of the same work
	variant int
	most    func(x float64) int // requests of a frame
}

// bundleVariant is that of bundles among our series, where there is no other.
const bundleVariant = 1

// bundlesOf has the same number of requests in all frames of a figure.
func bundlesOf(n int) bundles {
	return bundles{
		fmt.Sprintf("%s, %d requests a frame", ours, n),
		ours,
		netcraqPaper,
		bundleVariant,
		func(float64) int { return n },
	}
}

func (b bundles) series() figure.Series {
	return figure.Series{Name: b.name, Role: plot.Ours, Variant: b.variant}
}

// resolve makes a cell of bundles that of the series with one request a frame, and says how many
// requests a frame is to have.
func (b bundles) resolve(c figure.Cell) (figure.Cell, int) {
	if c.Series != b.name {
		return c, 1
	}
	return figure.Cell{Series: b.of, X: c.X}, b.most(c.X)
}

// bundleSetting says how requests travel in bundles.
const bundleSetting = "NetCRAQ with several requests a frame: one datagram (a bundle) holds independent requests " +
	"for different keys, and the chain forwards it as one packet. Rates count requests. All other series " +
	"have one request a frame"

// results returns the results of bundles under names of their own, beside the papers' protocols
// with one request a frame.
func (b bundles) results(o *figure.Outcome, metric, unit, text string) []figure.Result {
	var all []figure.Result
	for _, p := range o.Medians(b.name, metric) {
		all = append(all, figure.Result{
			Metric: fmt.Sprintf("%s (bundles of %d)", fmt.Sprintf(text, p.X), b.most(p.X)),
			Unit:   unit,
			Values: figure.Values{
				figure.NetChain:     o.Median(netChain, p.X, metric),
				figure.NetCRAQPaper: o.Median(b.beside, p.X, metric),
				figure.Ours:         &p.Y,
			},
		})
	}
	return all
}

// gain is something that bundles may do more of than single requests.
type gain struct {
	by     bundles
	metric string
	what   string
}

// gainNotes report the gain of bundles, and that it is no comparison with the papers.
func gainNotes(o *figure.Outcome, gains ...gain) []figure.Note {
	var notes []figure.Note
	for _, g := range gains {
		ratios := o.Ratios(g.by.name, g.by.of, g.metric)
		least, most := figure.Least(ratios), figure.Most(ratios)
		if least == nil {
			continue
		}
		times := fmt.Sprintf("%s to %s times", number(least.Y), number(most.Y))
		if len(ratios) == 1 {
			times = number(most.Y) + " times"
		}
		notes = append(notes, say(figure.Remark, "bundles-gain", facts{
			"Series": g.by.name,
			"Times":  times,
			"What":   g.what,
		}))
	}
	if len(notes) == 0 {
		return nil
	}
	return append(notes, say(figure.Remark, "bundles-not-in-papers", nil))
}

// withoutBundles are the series that have one request a frame, as all in the papers.
func withoutBundles(o *figure.Outcome) []figure.Series {
	return slices.DeleteFunc(slices.Clone(o.Spec.Series), func(s figure.Series) bool { return protocols[s.Name] == "" })
}

// Requests of a frame with objects of the usual size.
var (
	bundledReads  = bundlesOf(bench.MostReads(lineValueBytes))
	bundledWrites = bundlesOf(bench.MostWrites(lineValueBytes))
)
