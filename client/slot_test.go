package client

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/netcraq/netcraq/wire"
)

// The calls under way should stay in the CPU's cache.
func TestSlotSize(t *testing.T) {
	const cacheLine = 64
	if n := unsafe.Sizeof(slot{}); n > 3*cacheLine {
		t.Errorf("a slot has %d bytes, more than three cache lines", n)
	}
}

// TestHistory: the latest eight attempts are found, and no other.
func TestHistory(t *testing.T) {
	var k call
	for n := range uint64(20) {
		k.recent.add(attempt{id: 100 + n})
		for id := range uint64(200) {
			a, want := k.recent.find(id), id >= 100 && id <= 100+n && id+8 > 100+n
			if (a != nil) != want || a != nil && a.id != id {
				t.Fatalf("after %d attempts: attempt %d found: %v", n+1, id, a != nil)
			}
		}
		if k.recent.latest().id != 100+n {
			t.Fatalf("the latest of %d is %d", n+1, k.recent.latest().id)
		}
	}
	if k.clear(); k.recent.find(119) != nil {
		t.Error("an attempt of the operation before was found")
	}
}

// Values of one datagram are separate: a caller may append to each.
func TestValuesAreSeparate(t *testing.T) {
	buffer := []byte("onetwo")
	answers := []answer{
		{message: wire.Message{Value: buffer[:3]}}, {message: wire.Message{Value: buffer[:0]}},
		{message: wire.Message{Value: buffer[3:]}},
	}
	keepValues(answers)
	clear(buffer)
	for i := range answers {
		_ = append(answers[i].message.Value, "more"...)
	}
	for i, want := range []string{"one", "", "two"} {
		if got := answers[i].message.Value; got == nil || string(got) != want {
			t.Errorf("value %d is %q, want %q", i, got, want)
		}
	}
}

// Keys with their hashes are the same keys, for every way to use them.
func TestKeys(t *testing.T) {
	c, ctx := newClient(t, Options{Cluster: startCluster(t, 1, 1).cluster}), soon(t)
	var keys []Key
	for i := range 100 {
		key, err := KeyOf(fmt.Sprint("key ", i))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if o := c.Do(ctx, []Op{PutOp("other", []byte(key.String())).WithKey(key)})[0]; o.Err != nil {
				t.Fatal(o.Err)
			}
		} else if _, err := c.Put(ctx, key.String(), []byte(key.String())); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	for i, o := range c.GetKeys(ctx, keys) {
		if o.Err != nil || string(o.Value) != keys[i].String() {
			t.Errorf("%v: %q, %v", keys[i], o.Value, o.Err)
		}
	}
	if _, err := KeyOf(""); err == nil {
		t.Error("an empty key was hashed")
	}
}
