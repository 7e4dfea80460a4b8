package operate

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/pages"
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

// TestKeysOfTheOthers: gateways that are down, or have no such page as memory gateways, are left out with a warning.
func TestKeysOfTheOthers(t *testing.T) {
	serving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != pages.PathKeys {
			t.Errorf("asked for %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode([]placement.Explanation{{Key: "hot", Placed: true}}) // the client checks it
	}))
	defer serving.Close()
	memory := httptest.NewServer(http.NotFoundHandler())
	defer memory.Close()
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := down.Addr().String()
	down.Close()
	for _, args := range [][]string{nil, {"--json"}} {
		args = append(args, "--keys", "--gateways", strings.Join([]string{away, serving.URL, memory.URL}, ","))
		out, warned, err := clitest.Execute(t.Context(), newTopCommand(), args...)
		if err != nil || !strings.Contains(out, "hot") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		for _, want := range []string{"the gateway " + away + " does not answer", "the gateway " + memory.URL + ": 404"} {
			if !strings.Contains(warned, want) {
				t.Errorf("%v: no warning %q in %q", args, want, warned)
			}
		}
	}
	_, _, err = clitest.Execute(t.Context(), newTopCommand(), "--keys", "--gateways", away+","+memory.URL)
	if err == nil || !strings.Contains(err.Error(), away) || !strings.Contains(err.Error(), memory.URL) {
		t.Errorf("without an answer: %v", err)
	}
}
