package driver_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// The set of the next era: a letter is a gateway, in upper case with another disk, after a minus a silent one.
func TestDisks(t *testing.T) {
	for _, c := range []struct{ now, gateways, want string }{
		{"", "a", "a"},
		{"", "ab", "a"},
		{"b", "ab", "b"},
		{"a", "abc", "abc"},
		{"abc", "abcd", "abc"},
		{"abc", "ab-c", "abc"},
		{"abc", "ab-cd", "abd"},
		{"abc", "abC", "abC"},
		{"abc", "a-b-c", "abc"},
		{"abc", "abcde", "abcde"},
		{"abcde", "abcd-e", "abcde"},
		{"a", "A", "A"},
		{"a", "-ab", "b"},
	} {
		disk := func(r rune) core.Disk {
			return core.Disk{Name: uint64(strings.ToLower(string(r))[0]), Identity: uint64(r)}
		}
		var now []core.Disk
		for _, r := range c.now {
			now = append(now, disk(r))
		}
		var gateways []driver.Gateway
		silent := make(map[core.Disk]bool)
		for i, r := range c.gateways {
			if r != '-' {
				gateways = append(gateways, driver.Gateway{Disk: disk(r)})
				silent[disk(r)] = i > 0 && c.gateways[i-1] == '-'
			}
		}
		got := ""
		for _, d := range driver.Disks(now, gateways, func(d core.Disk) bool { return !silent[d] }) {
			got += fmt.Sprintf("%c", rune(d.Identity))
		}
		if got != c.want {
			t.Errorf("%q with the gateways %q: %q, want %q", c.now, c.gateways, got, c.want)
		}
	}
}

// Batches are put together from their pieces; one without an end is left out, and so are pieces without a beginning.
func TestBatches(t *testing.T) {
	batch := bytes.Repeat([]byte("b"), 25)
	pieces := driver.Split(batch, 11)
	if len(pieces) != 3 {
		t.Fatal(pieces)
	}
	var b driver.Batches
	b.Reset(9)
	var got [][]byte
	entries := [][]byte{pieces[2], pieces[0], pieces[1], pieces[0], pieces[1], pieces[2], pieces[0], nil, pieces[1], pieces[2]}
	entries = append(entries, driver.Split([]byte("one"), 11)...)
	entries = append(append(entries, driver.Split(nil, 11)...), pieces[0], pieces[1])
	for i, payload := range entries {
		if all, complete := b.Take(10+uint64(i), payload); complete {
			got = append(got, all)
		}
	}
	if len(got) != 3 || !bytes.Equal(got[0], batch) || string(got[1]) != "one" || len(got[2]) != 0 || b.Whole() != 21 {
		t.Errorf("%q up to %d", got, b.Whole())
	}
}
