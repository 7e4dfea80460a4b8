package papers

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/netcraq/netcraq/eval/figure"
)

//go:embed findings.tmpl
var findingsText string

// findings are the sentences of the notes. A missing fact is an error.
var findings = template.Must(template.New("findings").Option("missingkey=error").
	Funcs(template.FuncMap{"number": number}).Parse(findingsText))

// facts are the fields of a finding.
type facts map[string]any

// sentence is a finding in words. Line breaks of its template are spaces. It panics if the finding does
// not exist or has another field than these: TestFindingsHaveTheirFacts looks at every call.
func sentence(finding string, of facts) string {
	var text strings.Builder
	if err := findings.ExecuteTemplate(&text, finding, of); err != nil {
		panic(fmt.Sprintf("papers: correct findings.tmpl or its caller: %v", err))
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// say is a note with a finding.
func say(verdict figure.Verdict, finding string, of facts) figure.Note {
	return figure.Note{Verdict: verdict, Text: sentence(finding, of)}
}
