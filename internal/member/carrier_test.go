package member

import (
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/member/core"
)

func TestRecordsInURLs(t *testing.T) {
	said := Said{Record: core.Record{Serial: 3, Number: 2}, Version: "v0.1.0-rc.1+dirty"}
	text := "#" + said.Record.String() + "@" + said.Version
	for _, c := range []struct{ urls, with []string }{
		{[]string{"http://a:1"}, []string{"http://a:1" + text}},
		{[]string{"unix://a:1", "https://b:2"}, []string{"unix://a:1", "https://b:2" + text}},
		{[]string{"unix://a:1"}, []string{"unix://a:1" + text}},
		{nil, nil},
	} {
		got := WithRecord(c.urls, said.Record, said.Version)
		if !slices.Equal(got, c.with) {
			t.Errorf("%q with a record: %q", c.urls, got)
		}
		want := said
		if c.urls == nil {
			want = Said{}
		}
		if read := SaidIn(got); read != want {
			t.Errorf("%q: %+v", got, read)
		}
		again := WithRecord(WithRecord(got, core.Record{Serial: 9}, "v2"), core.Record{}, "v3")
		if !slices.Equal(again, c.urls) {
			t.Errorf("%q without the record: %q", got, again)
		}
	}
	record := said.Record.String()
	for url, want := range map[string]Said{
		"http://a:1#netcraq.9.x":             {Unknown: true},
		"http://a:1#netcraq.9.x@v9":          {Unknown: true, Version: "v9"},
		"http://a:1#other":                   {},
		"http://a:1":                         {},
		"http://a:1#" + record:               {Record: said.Record},
		"http://a:1#" + record + "@(devel)":  {Record: said.Record, Version: "(devel)"},
		"http://a:1#" + record + "@\x1b[1mv": {Record: said.Record},
		"http://a:1#" + record + "@" + strings.Repeat("v", mostVersionBytes+1): {Record: said.Record},
	} {
		if read := SaidIn([]string{url}); read != want {
			t.Errorf("%q: %+v, want %+v", url, read, want)
		}
	}
	if got := WithRecord([]string{"http://a:1"}, said.Record, "not a version"); got[0] != "http://a:1#"+record {
		t.Errorf("a text that is no version is written: %q", got)
	}
}

// FuzzSaidIn: whatever a URL says, only what a member of this version can write is taken for a record and a version.
func FuzzSaidIn(f *testing.F) {
	for _, url := range []string{
		"", "http://a:1#netcraq.1.3.2.0.0@v0.1.0", "http://a:1#netcraq.2@v2", "#netcraq.1.3.2.0.0@@",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s := SaidIn([]string{url})
		if s.Record.Plain() {
			return
		}
		if again := SaidIn(WithRecord([]string{"http://a:1"}, s.Record, s.Version)); again != s {
			t.Errorf("%q is read as %+v, which is read back as %+v", url, s, again)
		}
	})
}
