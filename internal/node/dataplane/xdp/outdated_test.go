package xdp

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// TestOutdatedObjectIsExplained: an object that lacks a map, program or variable says how to get a current one.
func TestOutdatedObjectIsExplained(t *testing.T) {
	parts := partsOfNode(constantsOf(netip.MustParseAddrPort("10.0.0.1:4411"), chain.Options{Shards: 1}))
	for _, name := range slices.Concat([]string{""}, parts.maps, parts.programs, parts.variables) {
		spec, err := readObject(netcraqObject)
		if err != nil {
			t.Fatal(err)
		}
		delete(spec.Maps, name)
		delete(spec.Programs, name)
		delete(spec.Variables, name)
		err = isCurrent(spec, parts)
		switch {
		case name == "" && err != nil:
			t.Error(err)
		case name != "" && (err == nil || !strings.Contains(err.Error(), "make bpf") || !strings.Contains(err.Error(), name)):
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestOutdatedObjectIsRefused: loading such an object ends with that error. The object of another program stands for it.
func TestOutdatedObjectIsRefused(t *testing.T) {
	other, err := os.ReadFile("../../../verify/lab/fault.o")
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	zip := gzip.NewWriter(&compressed)
	if _, err := zip.Write(other); err != nil || zip.Close() != nil {
		t.Fatal(err)
	}
	current := netcraqObject
	t.Cleanup(func() { netcraqObject = current })
	netcraqObject = compressed.Bytes()
	o := chain.Options{Shards: 1}
	if _, err := prepare(o, constantsOf(netip.MustParseAddrPort("10.0.0.1:4411"), o)); err == nil ||
		!strings.Contains(err.Error(), "make bpf") {
		t.Error(err)
	}
}
