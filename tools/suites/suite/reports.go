package suite

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// JUnit reads reports in the format of JUnit, which pytest, mocha and Maven write too. A test that is not in a report
// did not run.
func JUnit(files ...string) (Results, error) {
	r := newResults()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return r, err
		}
		var report junit
		if err := xml.Unmarshal(text, &report); err != nil {
			return r, fmt.Errorf("%s: %w", file, err)
		}
		r.addCases(report)
	}
	return r, nil
}

// A junit is an element of such a report: testsuites or testsuite.
type junit struct {
	Suites []junit `xml:"testsuite"`
	Cases  []struct {
		Class    string `xml:"classname,attr"`
		Name     string `xml:"name,attr"`
		Failures []said `xml:"failure"`
		Errors   []said `xml:"error"`
		Skipped  *said  `xml:"skipped"`
	} `xml:"testcase"`
}

type said struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r *Results) addCases(report junit) {
	for _, s := range report.Suites {
		r.addCases(s)
	}
	for _, c := range report.Cases {
		name := c.Class + ": " + c.Name
		switch errs := slices.Concat(c.Failures, c.Errors); {
		case len(errs) > 0:
			r.status[name] = failed
			for _, e := range errs {
				r.output[name] += e.Message + "\n" + e.Text + "\n"
			}
		case c.Skipped != nil:
			r.status[name] = skipped
		case r.status[name] != failed: // pytest reports an error after a test as a case of its own
			r.status[name] = passed
		}
	}
}

var (
	cargoTest   = regexp.MustCompile(`(?m)^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)`)
	cargoOutput = regexp.MustCompile(`(?ms)^---- (\S+) stdout ----\n(.+?)\n\n`)
)

// Cargo reads the output of cargo test.
func Cargo(text string) Results {
	r := newResults()
	statuses := map[string]string{"ok": passed, "FAILED": failed, "ignored": skipped}
	for _, found := range cargoTest.FindAllStringSubmatch(text, -1) {
		r.status[found[1]] = statuses[found[2]]
	}
	for _, found := range cargoOutput.FindAllStringSubmatch(text, -1) {
		r.output[found[1]] = strings.TrimSpace(found[2])
	}
	return r
}
