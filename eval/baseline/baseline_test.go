package baseline_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
)

func TestHost(t *testing.T) {
	for name, want := range map[string]string{
		"n1": "10.88.0.1:8888", "n12": "10.88.0.12:8888", "c2": "10.88.1.2:50000", "n2:53": "10.88.0.2:53",
	} {
		if got, err := baseline.Host(name, 8888); err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "n", "x1", "n300", "n1:", "n1:99999"} {
		if got, err := baseline.Host(name, 8888); err == nil {
			t.Errorf("%q is %v", name, got)
		}
	}
}

func TestPacketsKeepAddresses(t *testing.T) {
	client, node := netip.MustParseAddrPort("10.88.1.1:50000"), netip.MustParseAddrPort("10.88.0.1:8888")
	p := baseline.Packet{From: client, To: node}
	if r := p.Reply(nil); r.From != node || r.To != client {
		t.Errorf("a reply goes from %v to %v", r.From, r.To)
	}
	if r := p.Redirect(netip.MustParseAddr("10.88.0.9"), nil); r.From != client ||
		r.To != netip.MustParseAddrPort("10.88.0.9:8888") {
		t.Errorf("redirected, it goes from %v to %v", r.From, r.To)
	}
}

func TestVectorsThatAreNotThere(t *testing.T) {
	if _, err := baseline.ReadFile[struct{}, struct{}]("nothing.yaml"); err == nil {
		t.Error("a file that is not there is read")
	}
	if _, err := baseline.ReadFile[struct{}, struct{}]("netchain.yaml"); err == nil {
		t.Error("unknown fields are read")
	}
}

func TestFormatsThatCannotBeRead(t *testing.T) {
	written := func(message, hex string) []baseline.WrittenFormat[string] {
		return []baseline.WrittenFormat[string]{{Name: "an odd one", Message: message, Hex: hex}}
	}
	number := func(text *string) (int, error) { return strconv.Atoi(*text) }
	if got, err := baseline.ReadFormats(written("7", "07"), number); err != nil || len(got) != 1 ||
		got[0].Message != 7 ||
		string(got[0].Bytes) != "\a" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]baseline.WrittenFormat[string]{written("seven", "07"), written("7", "0")} {
		if _, err := baseline.ReadFormats(bad, number); err == nil || !strings.Contains(err.Error(), "an odd one") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
