package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/p4/spec"
)

const root = "../../.."

// TestSizesInDocs: docs/p4.md has the output of -sizes.
func TestSizesInDocs(t *testing.T) {
	var want bytes.Buffer
	if err := writeSizes(&want, root); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/p4.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "<!-- sizes -->\n\n")
	got, _, end := strings.Cut(after, "\n<!-- end of sizes -->")
	if !ok || !end {
		t.Fatal("docs/p4.md has no part between <!-- sizes --> and <!-- end of sizes -->")
	}
	if got != want.String() {
		t.Errorf("docs/p4.md: replace the part between the comments by the output of "+
			"`go run ./internal/tools/p4c -sizes`:\n%s", want.String())
	}
}

const small = `
struct base_h {
	bit<64> hi
	bit<16> lo
}
struct meta_t {
	bit<32> object
}
struct take_arg_t {
	bit<32> index
	bit<8> more
}
header base instanceof base_h
metadata instanceof meta_t
regarray state_object_version size 0x10 initval 0
regarray state_object_reads size 0x10 initval 0x0
regarray state_session_seq size 4 initval 0
regarray other_0 size 2 initval 0
action take args instanceof take_arg_t {
	mov m.object t.index
	return
}
action none args none {
	return
}
table state_objects {
	key {
		h.base.hi exact
		m.object exact
	}
	actions {
		take
		none
	}
	default_action none args none
	size 0x10
}
apply {
	table state_objects
	LABEL :	tx m.object
}
`

func TestUseOf(t *testing.T) {
	p, err := spec.Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	if p.Instructions != 5 || len(p.Headers) != 1 || len(p.Tables) != 1 || len(p.Arrays) != 4 {
		t.Errorf("%+v", p)
	}
	arrays := map[string]declared{
		"object_version": {64, false}, "version": {8, false}, "object_reads": {32, true}, "session_seq": {16, false},
		"other": {5, false},
	}
	u, err := useOf(p, arrays)
	want := use{
		entryBits: 64 + 32 + 40, entryRegisterBits: 64, entryCounterBits: 32, sessionBits: 64, otherBits: 10, sessions: 4,
	}
	if err != nil || u != want {
		t.Errorf("%+v, %v, want %+v", u, err, want)
	}
	if _, err := useOf(p, nil); err == nil {
		t.Error("an array that no source declares has a width")
	}
}

func TestSpecsThatCannotBeRead(t *testing.T) {
	for _, bad := range []string{
		"struct a_t {\n\tbit<x> b\n}\n", "regarray a size many initval 0\n", "table t {\n\tsize few\n}\n",
		"struct {\n}\n", "header a\n", "action a args instanceof\n", "table {\n}\n", "table t {\n\tsize\n}\n",
	} {
		if _, err := spec.Parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	p, err := spec.Parse(strings.Replace(small, "h.base.hi", "h.base.none", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyBits(p, &p.Tables[0]); err == nil {
		t.Error("a key of a field that does not exist has a length")
	}
}
