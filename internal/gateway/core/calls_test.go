package core

import (
	"reflect"
	"slices"
	"testing"
)

// TestSpan: a span has its first key and not its end; without an end it has all keys from the first on.
func TestSpan(t *testing.T) {
	for _, c := range []struct {
		span Span
		key  string
		want bool
	}{
		{Span{"b", "d"}, "a", false},
		{Span{"b", "d"}, "b", true},
		{Span{"b", "d"}, "c", true},
		{Span{"b", "d"}, "d", false},
		{Span{"b", "\x00"}, "a", false},
		{Span{"b", "\x00"}, "z", true},
	} {
		if c.span.Has(c.key) != c.want {
			t.Errorf("%q has %q: %v", c.span, c.key, !c.want)
		}
	}
}

// TestKeysOfTxn: a key that both branches write is one key.
func TestKeysOfTxn(t *testing.T) {
	txn := Txn{Then: []Write{{Key: "b"}, {Key: "a"}}, Else: []Write{{Key: "a"}, {Key: "c"}}}
	if keys := txn.Keys(); !slices.Equal(keys, []string{"b", "a", "c"}) {
		t.Errorf("%q", keys)
	}
}

// TestOwnState: only a transaction without writes and linearizable reads would run on a member's own state.
func TestOwnState(t *testing.T) {
	for _, writes := range []bool{false, true} {
		for _, reads := range []bool{false, true} {
			if got, want := OwnState(writes, reads, 0), !writes && !reads; got != want {
				t.Errorf("writes %v, reads %v: %v", writes, reads, got)
			}
		}
	}
}

// TestEntryOfResult: what etcd shows of a key, as an object has it.
func TestEntryOfResult(t *testing.T) {
	r := Result{Rev: 20, KVs: map[string]KV{
		"plain":  {Value: "v", Create: 3, Mod: 7, Version: 2},
		"packed": {Value: "v", Create: 3, Mod: 7, Version: 2, Packed: true},
		"leased": {Value: "v", Mod: 8, Leased: true}, "large": {Mod: 9, TooLarge: true},
	}}
	for key, want := range map[string]Entry{
		"plain":  {State: Value, Rev: 7, Create: 3, Version: 2, Value: "v"},
		"packed": {State: Packed, Rev: 7, Create: 3, Version: 2, Value: "v"},
		"leased": {State: NotCacheable, Rev: 8},
		"large":  {State: NotCacheable, Rev: 9},
		"none":   {State: Absent, Rev: 20},
	} {
		if got := r.entry(key); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", key, got)
		}
	}
}
