package record

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

// example is a keyspace in era 3 that prepares era 5.
func example() *Keyspace {
	disks := []core.Disk{{Name: 1, Identity: 11}, {Name: 2, Identity: 12}, {Name: 3, Identity: 13}}
	k := &Keyspace{Name: "one", ID: 7, Secret: make([]byte, secretBytes), State: driver.State{Record: core.Record{
		Active:     core.Era{Number: 3, Set: disks, Base: core.Position{Era: 2, Index: 40, Term: 6}},
		Recovering: 5, Next: disks[:2],
	}}}
	for i, member := range []string{"a", "b", "c"} {
		k.Gateways = append(k.Gateways, driver.Gateway{Disk: disks[i], Member: member, Address: "127.0.0.1:2379"})
	}
	return k
}

// TestDecode: a record is what it was after it has been encoded, and one that no gateway writes is refused.
func TestDecode(t *testing.T) {
	if k, err := Decode(Encode(example())); err != nil || !reflect.DeepEqual(k, example()) {
		t.Errorf("%+v, %v", k, err)
	}
	for want, change := range map[string]func(*Keyspace){
		"no number":        func(k *Keyspace) { k.ID = 0 },
		"its secret":       func(k *Keyspace) { k.Secret = k.Secret[1:] },
		"keyspace name":    func(k *Keyspace) { k.Name = "a/b" },
		"no era":           func(k *Keyspace) { k.Active.Number = 0 },
		"begins with":      func(k *Keyspace) { k.Active.Base.Era = 3 },
		"is active":        func(k *Keyspace) { k.Recovering = 3 },
		"no era is prepar": func(k *Keyspace) { k.Recovering = 0 },
		"has two":          func(k *Keyspace) { k.Next = []core.Disk{{Name: 1, Identity: 1}, {Name: 1, Identity: 2}} },
		"at most 9":        func(k *Keyspace) { k.Active.Set = make([]core.Disk, 10) },
		"at most 64":       func(k *Keyspace) { k.Gateways = make([]driver.Gateway, 65) },
		"are sorted":       func(k *Keyspace) { k.Gateways[1].Member = "a" },
		"HOST:PORT":        func(k *Keyspace) { k.Gateways[1].Address = "here" },
		"printable":        func(k *Keyspace) { k.Gateways[2].Member = "c\n" },
		"has no number":    func(k *Keyspace) { k.Gateways[2].Disk.Name = 0 },
	} {
		k := example()
		change(k)
		if _, err := Decode(Encode(k)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzDecode: the message of a record is refused, or is what the record is encoded as.
func FuzzDecode(f *testing.F) {
	for _, k := range []*Keyspace{example(), {Name: "x", ID: 1}} {
		b, err := proto.Marshal(Encode(k))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in controllerv1.Keyspace
		if proto.Unmarshal(b, &in) != nil {
			return
		}
		k, err := Decode(&in)
		if err != nil {
			return
		}
		again, err := Decode(Encode(k))
		if err != nil || !reflect.DeepEqual(again, k) {
			t.Fatalf("%+v becomes %+v, %v", k, again, err)
		}
	})
}

// TestCheckChange: the records of recoveries follow one another, and others do not.
func TestCheckChange(t *testing.T) {
	activated := func(k *Keyspace) {
		k.Active = core.Era{Number: 5, Set: k.Next, Base: core.Position{Era: 3, Index: 44, Term: 9}}
		k.Recovering, k.Next = 0, nil
	}
	for _, c := range []struct {
		what   string
		change func(*Keyspace)
		ok     bool
	}{
		{"nothing", func(*Keyspace) {}, true},
		{"other gateways", func(k *Keyspace) { k.Gateways = k.Gateways[:1] }, true},
		{"the next recovery", func(k *Keyspace) { k.Recovering, k.Next = 6, k.Active.Set }, true},
		{"the same number for other disks", func(k *Keyspace) { k.Next = k.Active.Set }, false},
		{"a recovery less", func(k *Keyspace) { k.Recovering, k.Next = 0, nil }, false},
		{"a number before", func(k *Keyspace) { k.Recovering = 4 }, false},
		{"another set of the same era", func(k *Keyspace) { k.Active.Set = k.Next }, false},
		{"activated", activated, true},
		{"activated with other disks", func(k *Keyspace) { activated(k); k.Active.Set = k.Active.Set[:1] }, false},
		{"an era that was not prepared", func(k *Keyspace) { activated(k); k.Active.Number = 6 }, false},
		{"a base before the last one", func(k *Keyspace) { activated(k); k.Active.Base.Index = 39 }, false},
		{"a base of an earlier era", func(k *Keyspace) { activated(k); k.Active.Base.Era = 2 }, false},
		{"another keyspace", func(k *Keyspace) { k.ID = 8 }, false},
		{"another secret", func(k *Keyspace) { k.Secret[3]++ }, false},
		{"no secret", func(k *Keyspace) { k.Secret = nil }, false},
	} {
		after := example()
		c.change(after)
		if err := CheckChange(example(), after); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if err := CheckChange(nil, example()); err == nil {
		t.Error("a keyspace is made with an era")
	}
	if err := CheckChange(nil, &Keyspace{Name: "x", ID: rand.Uint64(), Secret: []byte{1}}); err != nil {
		t.Errorf("a new keyspace: %v", err)
	}
}
