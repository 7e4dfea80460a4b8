package lab

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

func TestPlanesOf(t *testing.T) {
	for _, c := range []struct {
		list  string
		nodes int
		want  planes
	}{
		{"p4", 3, planes{"p4"}},
		{"xdp,p4,soft", 3, planes{"xdp", "p4", "soft"}},
		{"xdp,p4", 3, nil},
		{"xdp,p5,xdp", 3, nil},
		{"", 3, nil},
	} {
		got, err := planesOf(c.list, c.nodes)
		if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q for %d nodes: %v, %v", c.list, c.nodes, got, err)
		}
	}
}

// TestMixedChain runs chains of kernels and a switch, in every order, under loss and duplication,
// and checks the guarantees to clients.
func TestMixedChain(t *testing.T) {
	roottest.Need(t)
	enginetest.Need(t)
	for _, plane := range []string{"p4,xdp,xdp", "xdp,p4,xdp", "xdp,xdp,p4", "p4"} {
		checkMixed(t, plane)
	}
}

// TestMixedChainOfSwitches is TestMixedChain with switches that nodes drive by P4Runtime.
func TestMixedChainOfSwitches(t *testing.T) {
	roottest.Need(t)
	enginetest.Need(t)
	for _, plane := range []string{"soft,p4runtime,p4", "p4runtime,xdp,p4packets", "p4packets,soft,p4packets"} {
		checkMixed(t, plane)
	}
}

// TestMixedChainOnV1Model is TestMixedChain with BMv2's simple_switch_grpc.
func TestMixedChainOnV1Model(t *testing.T) {
	roottest.Need(t)
	enginetest.NeedSimpleSwitch(t)
	for _, plane := range []string{"soft,v1model,soft", "v1model"} {
		checkMixed(t, plane)
	}
}

func checkMixed(t *testing.T, plane string) {
	t.Helper()
	out, _, err := clitest.Netcraq(
		"lab", "check", "--name", "tmixed", "--seconds", "3", "--loss", "2", "--dup", "2", "--seed", "1",
		"--plane", plane, "--json",
	)
	if err != nil {
		t.Fatal(err)
	}
	var r checkResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Ops == 0 || !r.Linearizable {
		t.Errorf("%s: %v, %+v", plane, err, r)
	}
	t.Logf("%s: %d operations, %d of unknown outcome", plane, r.Ops, r.Unknown)
}
