package member

import (
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/member/core"
)

func TestRecordsInURLs(t *testing.T) {
	r := core.Record{Serial: 3, Number: 2}
	for _, c := range []struct{ urls, with []string }{
		{[]string{"http://a:1"}, []string{"http://a:1#" + r.String()}},
		{[]string{"unix://a:1", "https://b:2"}, []string{"unix://a:1", "https://b:2#" + r.String()}},
		{[]string{"unix://a:1"}, []string{"unix://a:1#" + r.String()}},
		{nil, nil},
	} {
		got := WithRecord(c.urls, r)
		if !slices.Equal(got, c.with) {
			t.Errorf("%q with a record: %q", c.urls, got)
		}
		want := r
		if c.urls == nil {
			want = core.Record{}
		}
		if read := RecordIn(got); read != want {
			t.Errorf("%q: %+v", got, read)
		}
		if again := WithRecord(WithRecord(got, core.Record{Serial: 9}), core.Record{}); !slices.Equal(again, c.urls) {
			t.Errorf("%q without the record: %q", got, again)
		}
	}
	for _, url := range []string{"http://a:1#netcraq.9.x", "http://a:1#other", "http://a:1"} {
		if read := RecordIn([]string{url}); !read.Plain() {
			t.Errorf("%q: %+v", url, read)
		}
	}
}
