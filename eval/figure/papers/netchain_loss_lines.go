package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
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
			notes = append(notes, say(figure.Remark, "saturated-keeps", facts{
				"Series": s,
				"Reads":  100 * *reads,
				"Writes": 100 * *writes,
			}))
		}
	}
	if last := o.Xs[len(o.Xs)-1]; saturatedLoss(last) {
		if over := o.Median(netcraqPaper, last, "overflows_percent"); over != nil && *over > 0 {
			notes = append(notes, say(figure.Remark, "saturated-overflows", facts{
				"Place":   o.Spec.X.Place(last),
				"Percent": *over,
			}))
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return append(notes, say(figure.Remark, "saturated-links", nil))
}
