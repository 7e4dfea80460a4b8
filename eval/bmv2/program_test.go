package bmv2

import (
	"bytes"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/p4/bmv2"
)

// TestProgramsHaveTheSameNames: each table, action and array of a program for SWX is in the program for BMv2, since the
// control plane calls it by its name in the former.
func TestProgramsHaveTheSameNames(t *testing.T) {
	for _, program := range bmv2.Programs {
		p, err := parse(program.BMv2)
		if err != nil {
			t.Fatalf("%s: %v", program.Name, err)
		}
		for line := range strings.Lines(string(program.SWX)) {
			words := strings.Fields(line)
			if len(words) < 2 {
				continue
			}
			switch words[0] {
			case "table":
				if words[1] != "{" && words[len(words)-1] == "{" {
					_, err = find(p.tables, "table", words[1])
				}
			case "regarray":
				_, err = find(p.arrays, "array", words[1])
			}
			if err != nil {
				t.Errorf("%s: %v", program.Name, err)
			}
		}
	}
}

// TestNumberedActions: the DPDK backend numbers an action whose name is taken, as that of a node in the papers' programs.
func TestNumberedActions(t *testing.T) {
	for _, program := range bmv2.Programs {
		if !bytes.Contains(program.SWX, []byte("action node_1 ")) {
			continue
		}
		p, err := parse(program.BMv2)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := find(p.actions, "action", "node_1"); err != nil || a.name != "Node.node" {
			t.Errorf("%s: %+v, %v", program.Name, a, err)
		}
	}
}

func node(t *testing.T) *program {
	t.Helper()
	p, err := parse(bmv2.Programs[0].BMv2)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEntries(t *testing.T) {
	p := node(t)
	e, err := p.parseEntry("state_objects match 0x1 0xffffffffffffffff action state_object_0 index 0x102")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.key) != 2 || !bytes.Equal(e.key[1], bytes.Repeat([]byte{0xff}, 8)) || len(e.args) != 1 ||
		!bytes.Equal(e.args[0], []byte{0, 0, 1, 2}) {
		t.Errorf("key %x, arguments %x", e.key, e.args)
	}
	gone, err := p.parseEntry("state_objects match 0x1 0xffffffffffffffff")
	if err != nil || gone.action != nil || gone.place() != e.place() {
		t.Errorf("%+v, %v", gone, err)
	}
	for _, bad := range []string{
		"", "state_objects", "state_nothing match 0x1 0x2", "state_objects match 0x1", "state_objects match 0x1 0x2 0x3",
		"state_objects match 0x1 0x1ffffffffffffffff", "state_objects match 0x1 many",
		"state_objects match 0x1 0x2 action", "state_objects match 0x1 0x2 action nothing",
		"state_objects match 0x1 0x2 action state_object_0", "state_objects match 0x1 0x2 action state_object_0 place 0x1",
		"state_objects match 0x1 0x2 action state_object_0 index 0x100000000",
		"state_objects match 0x1 0x2 action state_object_0 index",
	} {
		if _, err := p.parseEntry(bad); err == nil {
			t.Errorf("%q is an entry", bad)
		}
	}
}

func TestProgramsThatAreNone(t *testing.T) {
	for _, bad := range []string{
		"", "[]", `{"header_types":[{"name":"a","fields":[["b"]]}]}`,
		`{"pipelines":[{"tables":[{"name":"t","key":[{"match_type":"exact","target":["a","b"]}]}]}]}`,
	} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q is a program", bad)
		}
	}
	if _, err := same([]byte("another")); err == nil {
		t.Error("a program that was not compiled for BMv2 is found")
	}
}
