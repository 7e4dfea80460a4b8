package p4runtime

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// contents is all that a state holds, as text.
func (s *state) contents() string {
	text := ""
	for _, t := range s.pipe.tables {
		for _, key := range slices.Sorted(maps.Keys(s.entries[t])) {
			text += fmt.Sprintf("%x %v\n", key, s.entries[t][key].message(t))
		}
		text += fmt.Sprintf("default %v\n", s.defaultOf(t).message(t))
	}
	return text
}

// FuzzUpdates: an update that fails changes nothing, one that is undone neither, and an entry that is read can
// be written again.
func FuzzUpdates(f *testing.F) {
	pipe, err := resolve(tinyInfo(f), read(f, "testdata/tiny.spec"))
	if err != nil {
		f.Fatal(err)
	}
	add := func(updates ...*p4v1.Update) {
		b, err := proto.Marshal(&p4v1.WriteRequest{Updates: updates})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, is := range updateErrors() {
		add(update(insert, host(1, 1)), is.update, update(modify, host(1, 2)), is.update, update(remove, host(1, 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r p4v1.WriteRequest
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		s := newState(pipe)
		for _, u := range r.GetUpdates() {
			before := s.contents()
			c, err := s.update(u)
			if err != nil {
				if after := s.contents(); after != before {
					t.Fatalf("%v failed, and changed %s to %s", u, before, after)
				}
				continue
			}
			c.add(new(p4.Request))
			after := s.contents()
			if c.undo(); s.contents() != before {
				t.Fatalf("%v, undone, changed %s to %s", u, before, s.contents())
			}
			if _, err := s.update(u); err != nil || s.contents() != after {
				t.Fatalf("%v made again: %v, %s instead of %s", u, err, s.contents(), after)
			}
		}
		copied := newState(pipe)
		for _, t1 := range pipe.tables {
			if len(s.entries[t1]) > t1.size {
				t.Fatalf("%d entries in table %s", len(s.entries[t1]), t1.name)
			}
			for _, e := range s.entries[t1] {
				if _, err := copied.update(update(insert, e.message(t1))); err != nil {
					t.Fatal(err)
				}
			}
			if e := s.defaults[t1]; e != nil {
				m := e.message(t1)
				m.IsDefaultAction = true
				if _, err := copied.update(update(modify, m)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if copied.contents() != s.contents() {
			t.Fatalf("read %s, wrote %s", s.contents(), copied.contents())
		}
	})
}

// FuzzConfigs: no P4Info and no program harms the switch, and what it takes is within what it has.
func FuzzConfigs(f *testing.F) {
	b, err := proto.Marshal(tinyInfo(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, read(f, "testdata/tiny.spec"))
	f.Fuzz(func(t *testing.T, b, program []byte) {
		var i config.P4Info
		if proto.Unmarshal(b, &i) != nil {
			return
		}
		pipe, err := resolve(&i, program)
		if err != nil {
			return
		}
		for _, t1 := range pipe.tables {
			if t1.original == nil || len(t1.actions) == 0 {
				t.Errorf("table %s has no actions", t1.name)
			}
		}
		for _, a := range slices.Concat(pipe.counters, pipe.registers) {
			if a.size < 1 || a.bits < 1 || a.bits > maxBits {
				t.Errorf("array %+v", a)
			}
		}
		packetOf(pipe.in, b)
		newState(pipe).contents()
	})
}
