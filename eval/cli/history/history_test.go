package history

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/history"
)

const twoLines = `{"commit":"aaaaaaaaaa","time":"2026-11-26T01:00:00Z","tools":{"kernel":"6.1"},` +
	`"figures":{"processed/nq_ingress":1000,"words":10}}
{"commit":"bbbbbbbbbb","time":"2026-11-27T01:00:00Z","tools":{"kernel":"6.1"},` +
	`"figures":{"processed/nq_ingress":1100,"words":11},"timed":{"write":0.5}}
`

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := newCommand()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage = true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestShowAndPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte(twoLines), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := run(t, "show", "--file", file, "--last", "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bbbbbbbb", "1,100 (+10.0 %)", "11 (+10.0 %)", "~ write", "0.5"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, kind := range []string{"svg", "png"} {
		picture := filepath.Join(t.TempDir(), "picture."+kind)
		if _, err := run(t, "plot", "--file", file, picture); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(picture); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := run(t, "plot", "--file", file, "picture.gif"); err == nil {
		t.Error("plot took a name that ends with .gif")
	}
	_, err = run(t, "show", "--file", file+".absent")
	if err == nil || !strings.Contains(err.Error(), "history record >>") {
		t.Errorf("a file that is absent: %v", err)
	}
}

// Only a figure that users pay for fails, and not after its line was added.
func TestJudgeOfALine(t *testing.T) {
	lines, err := history.Read(strings.NewReader(twoLines))
	if err != nil {
		t.Fatal(err)
	}
	p := &place{source: "."}
	var out bytes.Buffer
	err = p.judge(lines[:1], &lines[1], &out)
	if err == nil || !strings.HasPrefix(err.Error(), "1 figures") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"processed/nq_ingress: 1,100, 1,000 in aaaaaaaa: +10.0 %: worse\n", "words: 11, 10 in aaaaaaaa: +10.0 %\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if err := p.judge(lines, &lines[1], &out); err != nil {
		t.Errorf("after the line was added: %v", err)
	}
}
