package figure

import (
	"encoding/json"
	"testing"
)

// Programs read the summary by these fields, in which a system without a value has null.
func TestSummaryKeepsItsFields(t *testing.T) {
	text, err := json.Marshal(Result{Figure: "f", Metric: "m", Values: Values{Ours: Value(1.5), Paper: nil}})
	want := `{"figure":"f","metric":"m","paper":null,"netchain":null,"netcraq_published":null,"ours":1.5,` +
		`"peer":null,"unit":null}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v\nwant %s", text, err, want)
	}
}

// Another system is one more row of each result, one more column of the report and one more field of
// the summary, without a new field of Result.
func TestAnotherSystemIsAnotherRow(t *testing.T) {
	before := columns
	t.Cleanup(func() { columns = before })
	const other = System("other")
	columns = append(columns[:len(columns):len(columns)], column{other, "another"})
	r := Result{Metric: "m", Values: Values{other: Value(7)}, Intervals: bounds(other, 6, nil)}
	rows := r.Rows()
	if last := rows[len(rows)-1]; len(rows) != len(columns) || last.System != other || *last.Value != 7 ||
		last.Interval.Low != 6 {
		t.Errorf("%+v", rows)
	}
	text, err := json.Marshal(r)
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if err != nil || fields["other"] != 7.0 || fields["other_low"] != 6.0 {
		t.Errorf("%s, %v", text, err)
	}
}
