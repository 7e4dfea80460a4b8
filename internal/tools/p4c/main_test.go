package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
)

// TestManifest: the committed artefacts were compiled from the committed sources.
func TestManifest(t *testing.T) {
	if err := verifyAll(root); err != nil {
		t.Fatal(err)
	}
}

// TestChangesAreNoticed: no source or artefact can change, come or go without the manifest.
func TestChangesAreNoticed(t *testing.T) {
	change := func(name string, edit func(path string) error) error {
		dir := t.TempDir()
		for _, f := range folders {
			if err := os.CopyFS(filepath.Join(dir, f.path), os.DirFS(filepath.Join(root, f.path))); err != nil {
				t.Fatal(err)
			}
		}
		if err := edit(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return verifyAll(dir)
	}
	longer := func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, "x\n"...), 0o644)
	}
	add := func(path string) error { return os.WriteFile(path, nil, 0o644) }
	for _, c := range []struct {
		name string
		edit func(string) error
	}{{"p4/state.p4", longer}, {"p4/netcraq.spec", longer}, {"p4/another.p4", add}, {"p4/route.p4", os.Remove},
		{"eval/p4/netchain_cells.p4", longer}, {"eval/p4/netchain.spec", longer}, {"p4/v1model/swap.json", longer},
		{"p4/netcraq.p4info.txtpb", longer}, {"p4/swap.p4info.txtpb", os.Remove},
		{"eval/p4/another.p4", add},
		{"p4/v1model.p4", longer}, {"p4/v1model/netcraq.json", longer}, {"p4/v1model/netcraq.p4info.txtpb", longer},
	} {
		if err := change(c.name, c.edit); err == nil {
			t.Errorf("a change of %s is not noticed", c.name)
		}
	}
	if err := change("p4/state.p4", func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, "// another word\n"...), 0o644)
	}); err != nil {
		t.Errorf("a comment changed, but: %v", err)
	}
	if err := change("p4/state.p4", func(string) error { return nil }); err != nil {
		t.Errorf("nothing changed, but: %v", err)
	}
}

// TestNumbersOfP4c: parts have the numbers that p4c gives them, as P4 programs of others have them.
func TestNumbersOfP4c(t *testing.T) {
	for _, c := range []struct {
		kind config.P4Ids_Prefix
		name string
		want uint32
	}{
		{config.P4Ids_TABLE, "MyIngress.ipv4_lpm", 37375156},
		{config.P4Ids_ACTION, "MyIngress.drop", 25652968},
		{config.P4Ids_ACTION, "MyIngress.ipv4_forward", 28792405},
		{config.P4Ids_ACTION, "NoAction", 21257015},
	} {
		if got := infoID(c.kind, c.name); got != c.want {
			t.Errorf("%s is %d, want %d", c.name, got, c.want)
		}
	}
}

// TestP4Info: each part of the compiled node is in its P4Info once, under the name that the sources give it.
func TestP4Info(t *testing.T) {
	dir := filepath.Join(root, product.path)
	info, err := infoOf(dir, "netcraq.p4")
	if err != nil {
		t.Fatal(err)
	}
	p, err := readProgram(dir, "netcraq.p4")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(info.Counters) + len(info.Registers); len(info.Tables) != len(p.Tables) || n != len(p.Arrays) ||
		len(info.Counters) != 5 {
		t.Errorf("%d tables, %d arrays, of them %d of counters", len(info.Tables), n, len(info.Counters))
	}
	seen := make(map[string]bool)
	for _, all := range [][]*config.Preamble{preambles(info.Tables), preambles(info.Actions), preambles(info.Counters),
		preambles(info.Registers), preambles(info.ControllerPacketMetadata)} {
		for _, part := range all {
			if id := fmt.Sprint(part.Id); seen[id] || seen[part.Name] || part.Alias == "" {
				t.Errorf("%v: its number or its name is not the only one, or it has no alias", part)
			} else {
				seen[id], seen[part.Name] = true, true
			}
		}
	}
	for _, name := range []string{"Node.state.objects", "Node.state.object", "Node.state.object_version",
		"Node.state.shard_reads", "Node.outcomes", packetIn, packetOut} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
	table := info.Tables[slices.IndexFunc(info.Tables, func(t *config.Table) bool {
		return t.Preamble.Name == "Node.shard.members"
	})]
	var bits []int32
	for _, f := range table.MatchFields {
		bits = append(bits, f.Bitwidth)
	}
	if !slices.Equal(bits, []int32{16, 32, 16}) || table.Size != 65536 || table.MatchFields[1].Name != "hdr.ipv4.source" {
		t.Errorf("%v", table)
	}
}

// TestV1ModelInfo: the node for v1model takes the clock with a packet.
func TestV1ModelInfo(t *testing.T) {
	dir := filepath.Join(root, product.path)
	info, err := v1modelInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, m := range info.ControllerPacketMetadata {
		if m.Preamble.Name == packetOut {
			for _, f := range m.Metadata {
				fields = append(fields, fmt.Sprintf("%d %s %d", f.Id, f.Name, f.Bitwidth))
			}
		}
	}
	if !slices.Equal(fields, []string{"1 now 64", "2 note 16", "3 port 8"}) {
		t.Errorf("a packet has %q", fields)
	}
}
