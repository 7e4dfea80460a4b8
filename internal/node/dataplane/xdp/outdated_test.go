package xdp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// TestOutdatedObjectIsExplained: an object that lacks a map, program or variable says how to get a current one.
func TestOutdatedObjectIsExplained(t *testing.T) {
	node := partsOfNode(constantsOf(netip.MustParseAddrPort("10.0.0.1:4411"), chain.Options{Shards: 1}))
	for _, o := range []struct {
		name  string
		bytes []byte
		parts parts
	}{{"netcraq.o", netcraqObject, node}, {"scan.o", scanObject, partsOfScanner}} {
		lost := append(append(append([]string{""}, o.parts.maps...), o.parts.programs...), o.parts.variables...)
		for _, name := range lost {
			spec, err := readObject(o.bytes)
			if err != nil {
				t.Fatal(err)
			}
			delete(spec.Maps, name)
			delete(spec.Programs, name)
			delete(spec.Variables, name)
			err = isCurrent(spec, o.name, o.parts)
			switch {
			case name == "" && err != nil:
				t.Error(err)
			case name != "" && (err == nil || !strings.Contains(err.Error(), "make bpf") || !strings.Contains(err.Error(), name)):
				t.Errorf("%s without %s: %v", o.name, name, err)
			}
		}
	}
}

// TestOutdatedObjectIsRefused: loading such an object ends with that error. The object of another program stands for it.
func TestOutdatedObjectIsRefused(t *testing.T) {
	current := [2][]byte{netcraqObject, scanObject}
	t.Cleanup(func() { netcraqObject, scanObject = current[0], current[1] })
	netcraqObject, scanObject = scanObject, netcraqObject
	o := chain.Options{Shards: 1}
	if _, err := prepare(o, constantsOf(netip.MustParseAddrPort("10.0.0.1:4411"), o)); err == nil ||
		!strings.Contains(err.Error(), "make bpf") {
		t.Errorf("netcraq.o: %v", err)
	}
	if _, err := scanner(o.Shards); err == nil || !strings.Contains(err.Error(), "make bpf") {
		t.Errorf("scan.o: %v", err)
	}
}
