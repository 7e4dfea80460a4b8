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
	Cut    bool     // disks were given up before: entries behind Base are lost that may have been applied
}

// Record is what the controllers' etcd stores about a keyspace. It is changed by compare-and-set.
type Record struct {
	Active     Era
	Recovering uint64 // the number of the era that is being prepared; 0: none
	Next       []Disk // its set
	// Lost are disks of the active era that an operator has given up. With some, the next era begins with what the others
	// have, although these are no majority. One of them must have the base of the active era.
	Lost []Disk
}

// Newest is the highest number that an era has or was to have.
func (r *Record) Newest() uint64 { return max(r.Active.Number, r.Recovering) }

// equal reports whether two eras are the same one.
func (e *Era) equal(f *Era) bool {
	return e.Number == f.Number && e.Base == f.Base && e.Cut == f.Cut && slices.Equal(e.Set, f.Set)
}

// CheckChange returns an error if no gateway makes the record next out of this one: it prepares a later era, makes the
// prepared era the active one, or leaves the record as it is.
func (r *Record) CheckChange(next *Record) error {
	base := &next.Active.Base
	switch {
	case r.Active.equal(&next.Active) && slices.Equal(r.Lost, next.Lost) &&
		(r.Recovering == next.Recovering && slices.Equal(r.Next, next.Next) || next.Recovering > r.Newest()):
		return nil
	case r.Recovering > 0 && next.Active.Number == r.Recovering && next.Recovering == 0 && len(next.Next) == 0 &&
		len(next.Lost) == 0 && slices.Equal(next.Active.Set, r.Next) && next.Active.Cut == (len(r.Lost) > 0) &&
		base.Era >= r.Active.Number && base.Index >= r.Active.Base.Index:
		return nil
	}
	return fmt.Errorf("no recovery makes era %d (prepared: %d) out of era %d (prepared: %d)",
		next.Active.Number, next.Recovering, r.Active.Number, r.Recovering)
}

// GiveUp returns the record in which disks of the active era are given up. The error says why they need not be, or
// cannot be.
func (r Record) GiveUp(lost []Disk) (Record, error) {
	for _, d := range lost {
		if !slices.Contains(r.Active.Set, d) {
			return r, fmt.Errorf("disk %x/%x does not count in era %d", d.Name, d.Identity, r.Active.Number)
		}
	}
	r.Lost = lost
	left, need := len(r.asked()), majority(r.Active.Set)
	switch {
	case left >= need:
		return r, fmt.Errorf("%d of %d disks are left, and %d suffice: start the gateways that have them, and nothing is "+
			"lost", left, len(r.Active.Set), need)
	case left == 0:
		return r, fmt.Errorf("no disk of era %d is left, so there is nothing to go on with: make another keyspace from a "+
			"backup", r.Active.Number)
	}
	return r, nil
}

// asked are the disks whose promises the next era needs: a majority of them, or, if some are given up, all.
func (r *Record) asked() []Disk {
	return slices.DeleteFunc(slices.Clone(r.Active.Set), func(d Disk) bool { return slices.Contains(r.Lost, d) })
}

// promises is the number of promises that the next era needs.
func (r *Record) promises() int {
	if len(r.Lost) > 0 {
		return len(r.asked())
	}
	return majority(r.Active.Set)
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
