package core

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func FuzzParseRecord(f *testing.F) {
	for _, text := range []string{
		"", "netcraq.1.1.2.3.4", "netcraq.1.1.0.0.0", "netcraq.1.0.0.3.0", "netcraq.1.01.2.3.4", "netcraq.2.1.2.3.4",
		Record{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}.String(),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(text)
		if err != nil {
			if !r.Plain() {
				t.Errorf("%q gives %+v and an error", text, r)
			}
			return
		}
		if r.String() != text || len(text) > MaxRecord {
			t.Errorf("%q is read as %+v, which is %q", text, r, r)
		}
	})
}

func TestRecordsAreReadBack(t *testing.T) {
	for _, r := range []Record{{}, {Serial: 1}, {1, 2, 3, 4}, {math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}} {
		got, err := ParseRecord(r.String())
		if err != nil || got != r {
			t.Errorf("%+v is read back as %+v, %v", r, got, err)
		}
		if strings.ContainsAny(r.String(), "#%/? ") {
			t.Errorf("%q needs quoting in an address", r)
		}
	}
	for _, text := range []string{
		"netcraq", "netcraq.1.", "netcraq.1.1.2.3", "netcraq.1.1.2.3.4.5", "netcraq.1.1.2.3.04", "netcraq.1.A.2.3.4",
		"netcraq.1.1.0.3.0", "netcraq.2.1.2.3.4", "netcraq.1.0.0.0.0", "netcraq.1.-1.2.3.4", "netcraq.1.10000000000000000.2.3.4",
	} {
		if r, err := ParseRecord(text); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}

func FuzzDecodeObject(f *testing.F) {
	f.Add(Object{}.Encode())
	f.Add(Object{1, Point{math.MaxInt64, math.MaxUint64}}.Encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		if o, err := DecodeObject(value); err == nil && (o.Point.Revision < 0 || !reflect.DeepEqual(o.Encode(), value)) {
			t.Errorf("%x is read as %+v", value, o)
		}
	})
}

// TestStateIsAFunctionOfTheRecords checks each phase, and that a view is of exactly these members with these
// numbers.
func TestStateIsAFunctionOfTheRecords(t *testing.T) {
	numbered := func(numbers ...uint64) (members []Member) {
		for i, n := range numbers {
			members = append(members, Member{ID: uint64(i + 1), Record: Record{Serial: 1, Number: n}})
		}
		return members
	}
	join := func(members []Member, view uint64, which ...int) []Member {
		for _, i := range which {
			members[i].Record.View = view
		}
		return members
	}
	g := View(numbered(7, 8, 9))
	for _, c := range []struct {
		name    string
		members []Member
		want    State
	}{
		{"no member", nil, State{Off, 0, true}},
		{"plain members", []Member{{ID: 1}, {ID: 2}}, State{Off, 0, true}},
		{"one plain member", numbered(7, 0, 9), State{Off, 0, true}},
		{"all ready", numbered(7, 8, 9), State{Joining, g, true}},
		{"two joined", join(numbered(7, 8, 9), g, 0, 2), State{Joining, g, false}},
		{"all joined", join(numbered(7, 8, 9), g, 0, 1, 2), State{On, g, false}},
		{"one has another number", join(numbered(7, 8, 1), g, 0, 1, 2), State{Joining, View(numbered(7, 8, 1)), false}},
		{"one is plain again", join(numbered(7, 8, 0), g, 0, 1), State{Off, 0, false}},
		{"one joined another", join(join(numbered(7, 8, 9), g, 0, 1), g+1, 2), State{Joining, g, false}},
		{"one more member", join(numbered(7, 8, 9, 1), g, 0, 1, 2, 3), State{Joining, View(numbered(7, 8, 9, 1)), false}},
		{"one less member", join(numbered(7, 8), g, 0, 1), State{Joining, View(numbered(7, 8)), false}},
	} {
		if got := StateOf(c.members); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	reversed := numbered(7, 8, 9)
	reversed[0], reversed[2] = reversed[2], reversed[0]
	if View(reversed) != g {
		t.Error("the view depends on the order of the list")
	}
}
