package history

import (
	"strings"
	"testing"
	"time"
)

const one, two, eleven = "\x00\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x02",
	"\x00\x00\x00\x00\x00\x00\x00\x0b"

func op(call, end int64, kind Kind, o Op, outcome Outcome, version uint64) Op {
	o.Key, o.Kind, o.Call, o.Return, o.Outcome, o.Version = "k", kind, call, end, outcome, version
	return o
}

func read(call, end int64, value string, version uint64) Op {
	return op(call, end, Get, Op{Result: Result{Read: value}}, OK, version)
}

func TestCheck(t *testing.T) {
	put := func(call, end int64, value string, outcome Outcome, version uint64) Op {
		return op(call, end, Put, Op{Value: value}, outcome, version)
	}
	add := func(call, end int64, result string, outcome Outcome, version uint64) Op {
		return op(call, end, Add, Op{Delta: 1, Result: Result{Read: result}}, outcome, version)
	}
	cases := []struct {
		name string
		ok   bool
		ops  []Op
	}{
		{"reads follow a write", true, []Op{put(1, 2, "a", OK, 1), read(3, 4, "a", 1)}},
		{"a stale read", false, []Op{put(1, 2, "a", OK, 1), put(3, 4, "b", OK, 2), read(5, 6, "a", 1)}},
		{"a read of a value that went away and came back under another version", false,
			[]Op{put(1, 2, "a", OK, 1), read(3, 4, "a", 2)}},
		{"versions may skip numbers", true, []Op{put(1, 2, "a", OK, 4), read(3, 4, "a", 4)}},
		{"versions never repeat", false, []Op{put(1, 2, "a", OK, 4), put(3, 4, "b", OK, 4)}},
		{"an unknown write may take effect late", true,
			[]Op{put(1, 0, "a", Unknown, 0), put(2, 3, "b", OK, 1), read(4, 5, "b", 1), read(6, 7, "a", 2)}},
		{"an unknown write takes effect once", false,
			[]Op{put(1, 0, "a", Unknown, 0), read(2, 3, "a", 1), put(4, 5, "b", OK, 2), read(6, 7, "a", 3)}},
		{"an unknown write may never take effect", true,
			[]Op{put(1, 0, "a", Unknown, 0), op(2, 3, Get, Op{}, NotFound, 0)}},
		{"an ADD counts once", false, []Op{add(1, 2, one, OK, 1), read(3, 4, two, 2)}},
		{"ADDs of unknown outcome may count", true, []Op{add(1, 0, "", Unknown, 0), add(2, 3, two, OK, 2)}},
		{"an ADD on text", true, []Op{put(1, 2, "a", OK, 1), op(3, 4, Add, Op{Delta: 1}, NotCounter, 1)}},
		{"a refused ADD on a counter", false, []Op{put(1, 2, eleven, OK, 1), op(3, 4, Add, Op{Delta: 1}, NotCounter, 1)}},
		{"a CAS on absent after a delete", true, []Op{put(1, 2, "a", OK, 1), op(3, 4, Delete, Op{}, OK, 2),
			op(5, 6, CAS, Op{Value: "b"}, OK, 3), read(7, 8, "b", 3)}},
		{"a CAS on absent that is there", false, []Op{put(1, 2, "a", OK, 1), op(3, 4, CAS, Op{Value: "b"}, OK, 2)}},
		{"a CAS that failed without reason", false,
			[]Op{put(1, 2, "a", OK, 1), op(3, 4, CAS, Op{Expected: 1, Value: "b", Result: Result{Read: "a"}}, Failed, 1)}},
		{"a CAS that failed rightly", true,
			[]Op{put(1, 2, "a", OK, 3), op(3, 4, CAS, Op{Expected: 1, Value: "b", Result: Result{Read: "a"}}, Failed, 3)}},
		{"a DELETE under a CAS, and once more (W5)", false, []Op{put(1, 2, "a", OK, 1),
			op(3, 20, Delete, Op{}, OK, 4), op(5, 6, CAS, Op{Value: "b"}, OK, 3), read(7, 8, "b", 3),
			op(21, 22, Get, Op{}, NotFound, 4)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := Check(c.ops, time.Minute)
			if v.Linearizable() != c.ok {
				var report strings.Builder
				_ = v.Write(&report)
				t.Fatalf("linearizable = %v, want %v\n%s", v.Linearizable(), c.ok, report.String())
			}
		})
	}
}

func TestReportNamesWhatCannotBeExplained(t *testing.T) {
	v := Check([]Op{
		op(1, 2, Put, Op{Client: 3, Value: "new"}, OK, 2),
		op(3, 4, Get, Op{Client: 4, Result: Result{Read: "old"}}, OK, 1),
	}, time.Minute)
	var report strings.Builder
	if err := v.Write(&report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"key k: NOT linearizable", `client 3  put("new") -> done at version 2`, `client 4  get -> "old" at version 1`,
	} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, report.String())
		}
	}
}
