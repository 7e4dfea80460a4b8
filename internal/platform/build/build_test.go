package build

import "testing"

func TestName(t *testing.T) {
	const commit = "66c9b9e68a12f00dfeedbeef0123456789abcdef"
	for _, c := range []struct {
		info Info
		want string
	}{
		{Info{Version: "v0.1.0", Revision: commit}, "v0.1.0"},
		{Info{Version: unreleased, Revision: commit}, "66c9b9e68a12"},
		{Info{Version: unreleased, Revision: commit + "-dirty"}, "66c9b9e68a12-dirty"},
		{Info{Version: unreleased, Revision: commit, Modified: true}, "66c9b9e68a12-dirty"},
		{Info{Version: unreleased, Revision: "next"}, "next"},
		{Info{Version: unreleased}, unreleased},
	} {
		if got := c.info.Name(); got != c.want {
			t.Errorf("%+v has the name %q, want %q", c.info, got, c.want)
		}
	}
}
