package mutate

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Reason explains why mutants of a condition survive. It names the condition by its text, so that it holds until
// somebody changes that.
type Reason struct {
	Plane    string   `yaml:"plane"`
	File     string   `yaml:"file"`
	Function string   `yaml:"function,omitempty"` // empty: any
	Text     string   `yaml:"text"`               // of the line, or the condition
	Changes  []string `yaml:"changes"`
	Equal    string   `yaml:"equal,omitempty"` // why no test can notice it
	Gap      string   `yaml:"gap,omitempty"`   // or: which test is missing
}

//go:embed reasons.yaml
var reasonsText []byte

// readReasons reads a list of reasons.
func readReasons(text []byte) (all []Reason, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("reasons: %w", err)
	}
	for _, r := range all {
		if (r.Equal == "") == (r.Gap == "") || len(r.Changes) == 0 {
			return nil, fmt.Errorf("%s, %q: want changes, and one of equal and gap", r.File, r.Text)
		}
	}
	return all, nil
}

// explains reports whether a reason is for a mutant.
func (r *Reason) explains(m *Mutant) bool {
	return r.File == m.File && r.Text == m.Text && slices.Contains(r.Changes, m.Change) &&
		(r.Function == "" || r.Function == m.Function)
}

// reasonFor returns the reason for a mutant of a plane, or nil.
func reasonFor(all []Reason, plane string, m *Mutant) *Reason {
	for i := range all {
		if all[i].Plane == plane && all[i].explains(m) {
			return &all[i]
		}
	}
	return nil
}

// stale returns the reasons for a plane that are for none of its mutants: the code has changed since.
func stale(all []Reason, plane string, mutants []Mutant) (none []Reason) {
	for _, r := range all {
		for _, change := range r.Changes {
			one := r
			one.Changes = []string{change}
			if r.Plane == plane && !slices.ContainsFunc(mutants, func(m Mutant) bool { return one.explains(&m) }) {
				none = append(none, one)
			}
		}
	}
	return none
}
