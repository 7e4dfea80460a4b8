package core

import (
	"cmp"
	"fmt"
	"slices"
)

// Disk is a data directory of a gateway.
type Disk struct {
	Name     uint64 // of the gateway
	Identity uint64 // drawn when the directory was made
}

// Position is the last entry of a state: the state is that of Era after entry Index.
type Position struct {
	Era   uint64
	Index uint64
	Term  uint64 // of the entry in Era's log; 0: the era begins with it
}

// compare orders positions. An entry of an earlier era does not count beside a later era, whatever its index: it was
// left out when that era began.
func (without Rule) compare(p, q Position) int {
	if without.on(Order) && p.Era != q.Era {
		return cmp.Compare(p.Era, q.Era)
	}
	return cmp.Compare(p.Index, q.Index)
}

// Era is the time from one recovery to the next. It has its own log in the chain.
type Era struct {
	Number uint64   // 0: the keyspace was not made yet
	Set    []Disk   // whose syncs count; empty: an entry counts when the chain has it
	Base   Position // the state with which the era begins, as its recoverer took it
}

// Record is what the controllers' etcd stores about a keyspace. It is changed by compare-and-set.
type Record struct {
	Active     Era
	Recovering uint64 // the number of the era that is being prepared; 0: none
	Next       []Disk // its set
}

// Newest is the highest number that an era has or was to have.
func (r *Record) Newest() uint64 { return max(r.Active.Number, r.Recovering) }

// equal reports whether two eras are the same one.
func (e *Era) equal(f *Era) bool {
	return e.Number == f.Number && e.Base == f.Base && slices.Equal(e.Set, f.Set)
}

// CheckChange returns an error if no gateway makes the record next out of this one: it prepares a later era, makes the
// prepared era the active one, or leaves the record as it is.
func (r *Record) CheckChange(next *Record) error {
	base := &next.Active.Base
	switch {
	case r.Active.equal(&next.Active) && r.Recovering == next.Recovering && slices.Equal(r.Next, next.Next):
		return nil
	case r.Active.equal(&next.Active) && next.Recovering > r.Newest():
		return nil
	case r.Recovering > 0 && next.Active.Number == r.Recovering && next.Recovering == 0 && len(next.Next) == 0 &&
		slices.Equal(next.Active.Set, r.Next) && base.Era >= r.Active.Number && base.Index >= r.Active.Base.Index:
		return nil
	}
	return fmt.Errorf("no recovery makes era %d (prepared: %d) out of era %d (prepared: %d)",
		next.Active.Number, next.Recovering, r.Active.Number, r.Recovering)
}

// same reports whether two names are of one disk.
func (without Rule) same(a, b Disk) bool {
	return a.Name == b.Name && (a.Identity == b.Identity || !without.on(Identity))
}

// at returns the place of a disk in a set, or -1.
func (without Rule) at(set []Disk, d Disk) int {
	return slices.IndexFunc(set, func(s Disk) bool { return without.same(s, d) })
}

// majority of a set; 0 of the empty one.
func majority(set []Disk) int {
	if len(set) == 0 {
		return 0
	}
	return len(set)/2 + 1
}
