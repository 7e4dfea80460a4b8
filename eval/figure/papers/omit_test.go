package papers

import (
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/figure"
)

// Where a chain is overloaded, the times of the few windows that it could follow are not shown either.
func TestTimesOfOverloadedAreNotShown(t *testing.T) {
	for _, c := range []struct {
		spec  *figure.Spec
		times []timed
	}{{netcraqLatency(), []timed{readTime}}, {netchainLatency(), []timed{readAlone, writeAlone}}} {
		dir, unanswered := t.TempDir(), 0.0
		record(
			t,
			dir,
			c.spec,
			func(cell figure.Cell) bool { return cell.Series == ours && cell.X == 10_000 },
			func(figure.Cell) figure.Sample {
				v := make(map[string]float64)
				for _, timed := range c.times {
					timed.add(v, 10, 20, unanswered)
				}
				unanswered = 30 // from the second round on
				return values(v)
			},
		)
		o, err := figure.Load(dir, c.spec)
		if err != nil {
			t.Fatal(err)
		}
		rows := o.Made(dir).Rows
		if i := slices.IndexFunc(rows, func(r figure.Row) bool { return strings.HasSuffix(r.Metric, "_us") }); i >= 0 ||
			len(rows) == 0 {
			t.Errorf("%s: %+v", c.spec.Name, rows)
		}
		for _, d := range o.Chart().Diagrams {
			if len(d.Data) > 0 {
				t.Errorf("%s: %s shows %+v", c.spec.Name, d.Title, d.Data)
			}
		}
	}
}
