package figure

// Made is a figure in numbers, as a command prints it.
type Made struct {
	Figure   string     `json:"figure"`
	Title    string     `json:"title"`
	Source   string     `json:"source"`
	Reports  string     `json:"reports"`
	Command  string     `json:"command"`
	Mode     string     `json:"mode"`
	Rounds   int        `json:"rounds"`
	Complete bool       `json:"complete"`
	Rows     []Row      `json:"rows"`
	Results  []Result   `json:"results"`
	Marks    []MadeMark `json:"marks"`
	Notes    []Note     `json:"notes"`
	Unable   []Failure  `json:"unable"`
	Failed   []Failure  `json:"failed"`
	Settings []string   `json:"settings"`
	Host     Host       `json:"machine"`
	Files    []string   `json:"files"`
}

// Row is a metric of a cell.
type Row struct {
	Series string  `json:"series"`
	X      float64 `json:"x"`
	Place  string  `json:"place"`
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Spread
	Drawn bool `json:"-"` // in a panel
}

// MadeMark is the target of a result, and whether it was reached.
type MadeMark struct {
	Metric string   `json:"metric"`
	Wanted string   `json:"wanted"`
	Ratio  *float64 `json:"ratio"`
	Met    bool     `json:"met"`
}

// Made puts an outcome into numbers; the files are in the directory.
func (o *Outcome) Made(dir string) *Made {
	m := &Made{
		Figure: o.Spec.Name, Title: o.Spec.Title, Source: o.Spec.Source.Paper,
		Reports: o.Spec.Source.Reports, Command: Command(o.Spec, o.Header.Quick),
		Mode: mode(
			o.Header.Quick), Rounds: o.Rounds(), Complete: o.End != nil && !o.End.TimeUp, Host: o.Header.Host,
		Results: o.results(), Notes: o.notes(), Unable: o.Unable, Failed: o.Failed, Files: o.files(dir), Rows: o.table(),
	}
	if o.End != nil {
		m.Settings = o.End.Settings
	}
	for _, r := range m.Results {
		if r.Mark != nil {
			m.Marks = append(m.Marks, MadeMark{r.Metric, r.Mark.Wanted(), r.Mark.Ratio, r.Mark.Met()})
		}
	}
	return m
}
