package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/eval/bench"
	"github.com/netcraq/netcraq/internal/eval/figure"
)

// Metrics of chains under an open load at the generator's full rate, without retries: the effect
// of loss on the protocols themselves, beside its effect on clients that wait and retry.
const (
	saturatedReads  = "saturated_reads_per_s"
	saturatedWrites = "saturated_writes_per_s"
)

// saturatedLoss are the places at which chains are saturated; at 0.1 % a rate would hide the loss in
// its spread.
func saturatedLoss(x float64) bool { return x != 1 }

// saturationWindow is the share of a window in which chains are saturated; clients have the rest.
const saturationWindow = 0.15

// measureSaturation measures the answers of a saturated chain to reads, then to writes.
func measureSaturation(
	ctx context.Context,
	lines *keep[lineKey, *bench.Line],
	protocol bench.Protocol,
	percent float64,
	window time.Duration,
) (map[string]float64, error) {
	key := lineKey{protocol: protocol, nodes: netChainChain, keys: lineKeys, valueBytes: lineValueBytes, wires: true}
	line, err := lines.get(ctx, key)
	if err != nil {
		return nil, err
	}
	v, works := make(map[string]float64), readsAndWrites()
	for _, w := range works {
		w.LossPercent = percent
		found, err := line.Throughput(ctx, w, window/time.Duration(len(works)))
		if err != nil {
			lines.drop(key)
			return nil, err
		}
		addFound(v, w, found)
	}
	v[saturatedReads], v[saturatedWrites] = v[readsPerS], v[writesPerS]
	delete(v, readsPerS)
	delete(v, writesPerS)
	return v, nil
}

// saturationResults are the answers of chains at every loss.
func saturationResults(o *figure.Outcome) []figure.Result {
	var all []figure.Result
	for _, m := range []struct{ metric, text, unit string }{{saturatedReads, "reads", "reads/s"},
		{saturatedWrites, "writes", "writes/s"}} {
		for _, x := range o.Xs {
			if saturatedLoss(x) {
				all = append(
					all,
					versus(o, m.metric, m.text+" answered by a saturated chain at "+o.Spec.X.Place(x)+" loss",
						m.unit, x, nil),
				)
			}
		}
		all = append(all, neverBehind(o, m.metric, m.text+" answered by a saturated chain")...)
	}
	return all
}

// saturationNotes report the throughput that remains under loss.
func saturationNotes(o *figure.Outcome) []figure.Note {
	var notes []figure.Note
	for _, s := range []string{ours, netChain, netcraqPaper} {
		reads := figure.Ratio(o.Median(s, lossAsked, saturatedReads), o.Median(s, 0, saturatedReads))
		writes := figure.Ratio(o.Median(s, lossAsked, saturatedWrites), o.Median(s, 0, saturatedWrites))
		if reads != nil && writes != nil {
			notes = append(notes, say(figure.Remark,
				"Saturated, at 5 %% loss, %s answers %.0f %% of the reads and %.0f %% of the writes that "+
					"it answers without loss.",
				s, 100**reads, 100**writes))
		}
	}
	if last := o.Xs[len(o.Xs)-1]; saturatedLoss(last) {
		if over := o.Median(netcraqPaper, last, "overflows_percent"); over != nil && *over > 0 {
			notes = append(notes, say(figure.Remark,
				"At %s loss published NetCRAQ drops %s %% of the writes because an object has no free "+
					"cell: lost acknowledgements leave cells occupied. Each measurement begins with free "+
					"cells; the longer it lasts, the more are occupied.",
				o.Spec.X.Place(last), number(*over)))
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return append(notes, say(figure.Remark,
		"On a saturated chain the number of links decides. A read of NetCRAQ crosses one link twice. A "+
			"read of NetChain crosses all links of the chain in both directions. A write crosses all links "+
			"in every protocol. A lost request costs the nodes after the loss nothing, so a chain may answer "+
			"nearly as many requests."))
}
