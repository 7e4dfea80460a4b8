package peer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestMemcachedAnswersManyKeys requests several keys in one datagram: duplicates, keys without a
// value, for which memcached sends an empty datagram and the end marker, and more keys and longer
// values than fit one datagram.
func TestMemcachedAnswersManyKeys(t *testing.T) {
	s := open(t, Memcached, Options{})
	ctx := t.Context()
	value := strings.Repeat("v", 700)
	if err := s.Put(ctx, "there", []byte(value)); err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]string{
		"one":            {"there"},
		"twice":          {"there", "there"},
		"missing":        {"missing", "missing-too"},
		"last missing":   {"there", "missing"},
		"first missing":  {"missing", "there", "there"},
		"more than fits": strings.Split(strings.Repeat("there missing ", 400)+"there", " "),
	} {
		t.Run(name, func(t *testing.T) {
			answers := make([]int, len(keys))
			s.(Many).GetMany(ctx, keys, func(i int, got []byte, err error) {
				answers[i]++
				if keys[i] == "there" && (err != nil || string(got) != value) || keys[i] != "there" &&
					!errors.Is(err, ErrNotFound) {
					t.Errorf("key %d, %q: %q, %v", i, keys[i], got, err)
				}
			})
			for i, n := range answers {
				if n != 1 {
					t.Errorf("%d answers for key %d of %d", n, i, len(keys))
				}
			}
		})
	}
}

func TestKeysFillDatagrams(t *testing.T) {
	var keys []string
	for i := range 200 {
		keys = append(keys, keyName(i))
	}
	m := newMultiGet(keys, nil)
	requests := m.requests()
	next := 0
	for i, g := range m.groups {
		if want := "get " + strings.Join(keys[g.first:g.end], " ") + lineEnd; string(requests[i]) != want || g.first != next {
			t.Errorf("request %d for keys %d to %d: %q", i, g.first, g.end, requests[i])
		}
		if size := datagramHeader + len(requests[i]); size > multiGetBytes || i+1 < len(requests) &&
			size+len(" ")+len(keys[0]) <= multiGetBytes {
			t.Errorf("request %d has %d bytes", i, size)
		}
		next = g.end
	}
	if next != len(keys) || len(requests) != len(m.groups) {
		t.Errorf("%d keys of %d in %d requests", next, len(keys), len(requests))
	}
}

// TestAnswersToManyKeysAreTakenApart handles answers that are lost, duplicated, reordered, combined
// in a datagram, or cut off.
func TestAnswersToManyKeysAreTakenApart(t *testing.T) {
	value := func(key string) string { return fmt.Sprintf("VALUE %s 0 1%s%s%s", key, lineEnd, key, lineEnd) }
	for name, c := range map[string]struct {
		datagrams []string
		got       string // values of the keys a b a c in order; a dot for none
		answers   int
	}{
		"each its own":  {[]string{value("a"), value("b"), value("a"), value("c") + "END"}, "abac", 3 + 4},
		"all in one":    {[]string{value("a") + value("b") + value("a") + value("c") + "END"}, "abac", 4},
		"another order": {[]string{value("c"), value("b"), value("a"), value("a")}, "abac", 4},
		"lost":          {[]string{value("a"), value("c")}, "a..c", 2},
		"twice":         {[]string{value("b"), value("b")}, ".b..", 1},
		"unasked":       {[]string{value("d"), "ERROR"}, "....", 0},
		"cut off":       {[]string{value("a") + value("b")[:13]}, "a...", 1},
		"end first":     {[]string{"END"}, "....", 4},
	} {
		got := []byte("....")
		m := newMultiGet([]string{"a", "b", "a", "c"}, func(i int, value []byte, err error) { got[i] = value[0] })
		m.requests()
		answers := 0
		for _, d := range c.datagrams {
			answers += m.answer(0, []byte(d))
		}
		if string(got) != c.got || answers != c.answers {
			t.Errorf("%s: %s, %d answers", name, got, answers)
		}
	}
}
