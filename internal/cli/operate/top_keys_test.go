package operate

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/placement"
)

func TestKeysAreAligned(t *testing.T) {
	var out strings.Builder
	if err := printKeys(&out, []placement.Explanation{
		{Key: "/registry/leases/a", ReadRate: 12.34, HitShare: 0.995, Bytes: 400, Placed: true, Reason: "it brings enough for each byte"},
		{Key: "a\tb", WriteRate: 1, Reason: "its prefix is excluded"},
	}); err != nil {
		t.Fatal(err)
	}
	want := `key                 reads/s  writes/s  from the chain  bytes  cached  reason
/registry/leases/a  12.3     0.0       100 %           400    yes     it brings enough for each byte
"a\tb"              0.0      1.0       0 %             0      no      its prefix is excluded
`
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out.String(), want)
	}
}
