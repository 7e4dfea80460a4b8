package keyspace

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// place is where a revision of a key stands in the order of etcd's store, in fewer bytes than its name there: the main
// number, and twice the number within it, plus one if the key is deleted.
type place struct{ main, sub uint64 }

const (
	nameBytes = 17
	subOffset = 9 // of the second number in a name
	// tombstone ends the name of a revision that deleted a key.
	tombstone = 't'
)

// placeOf returns the place of a name, or of the beginning of one.
func placeOf(name []byte) place {
	var whole [nameBytes + 1]byte
	copy(whole[:], name)
	at := place{binary.BigEndian.Uint64(whole[:]), binary.BigEndian.Uint64(whole[subOffset:]) << 1}
	if whole[nameBytes] == tombstone {
		at.sub++
	}
	return at
}

// placeAt returns the place of a revision.
func placeAt(at mvcc.Revision, deleted bool) place { return placeOf(nameOf(at, deleted)) }

// nameOf is how etcd's store names a revision.
func nameOf(at mvcc.Revision, deleted bool) []byte {
	name := mvcc.RevToBytes(at, mvcc.NewRevBytes())
	if deleted {
		name = append(name, tombstone)
	}
	return name
}

func (at place) deleted() bool { return at.sub&1 == 1 }

func (at place) name() []byte {
	return nameOf(mvcc.Revision{Main: int64(at.main), Sub: int64(at.sub >> 1)}, at.deleted())
}

// bytes is the length of the name.
func (at place) bytes() int64 { return nameBytes + int64(at.sub&1) }

func (at place) before(other place) bool {
	return at.main < other.main || at.main == other.main && at.sub < other.sub
}

// history is a sorted list of entries. Most are appended, and the oldest ones are removed.
type history struct {
	parts   []*part
	bytes   int64
	entries int64
}

// at returns the first entry that is not before a place: its part and its index there.
func (h *history) at(first place) (p, i int) {
	p = sort.Search(len(h.parts), func(p int) bool {
		places := h.parts[p].places
		return !places[len(places)-1].before(first)
	})
	if p == len(h.parts) {
		return p, 0
	}
	places := h.parts[p].places
	return p, sort.Search(len(places), func(i int) bool { return !places[i].before(first) })
}

// get returns the value at a place; nil: there is none.
func (h *history) get(at place) []byte {
	if p, i := h.at(at); p < len(h.parts) && h.parts[p].places[i] == at {
		return h.parts[p].value(i)
	}
	return nil
}

// put adds or replaces an entry, and returns the growth in bytes. It may keep the value.
func (h *history) put(at place, value []byte) int64 {
	grown := at.bytes() + int64(len(value))
	p, i := h.at(at)
	switch {
	case p == len(h.parts): // behind all
		if p == 0 || !h.parts[p-1].fits(value) {
			if p > 0 {
				h.parts[p-1].seal()
			}
			h.parts = append(h.parts, &part{slab: make([]byte, 0, slabBytes)})
			p++
		}
		last := h.parts[p-1]
		last.places, last.values = append(last.places, at), append(last.values, last.keep(value))
	case h.parts[p].places[i] == at:
		if old := h.parts[p].value(i); old != nil {
			grown -= at.bytes() + int64(len(old))
			h.parts[p].remove(i)
			h.entries--
		}
		h.parts[p].removed--
		h.parts[p].values[i] = h.parts[p].keep(value)
	default:
		q := h.parts[p]
		q.places, q.values = slices.Insert(q.places, i, at), slices.Insert(q.values, i, q.keep(value))
	}
	h.entries++
	h.bytes += grown
	return grown
}

// remove removes an entry, and returns the growth in bytes.
func (h *history) remove(at place) int64 {
	p, i := h.at(at)
	if p == len(h.parts) || h.parts[p].places[i] != at {
		return 0
	}
	q := h.parts[p]
	value := q.value(i)
	if value == nil {
		return 0
	}
	grown := -at.bytes() - int64(len(value))
	h.entries--
	h.bytes += grown
	q.remove(i)
	if q.removed > len(q.places)/2 {
		h.shrink(p)
	}
	return grown
}

// shrink frees the memory of a part's removed entries, and joins the part with the one before if both are short.
func (h *history) shrink(p int) {
	first := p
	if p > 0 && h.parts[p-1].joins(h.parts[p]) {
		first--
	}
	left := join(h.parts[first : p+1]...)
	if len(left.places) == 0 {
		h.parts = slices.Delete(h.parts, first, p+1)
		return
	}
	h.parts[first] = left
	h.parts = slices.Delete(h.parts, first+1, p+1)
}

// tidy looks at up to a number of parts, from part p on, and shrinks those with more than a few removed entries. It
// returns the part to continue with, and false behind the last one.
func (h *history) tidy(p, parts int) (next int, more bool) {
	for ; parts > 0 && p < len(h.parts); parts-- {
		before := len(h.parts)
		if q := h.parts[p]; q.removed > len(q.places)/tidyPart {
			h.shrink(p)
		}
		p += 1 - (before - len(h.parts))
	}
	return p, p < len(h.parts)
}

// between returns up to limit entries from a place on and before an end. 0: all.
func (h *history) between(first, end place, limit int64) (all []entry) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	for p, i := h.at(first); p < len(h.parts); p, i = p+1, 0 {
		for q := h.parts[p]; i < len(q.places); i++ {
			if int64(len(all)) >= limit || !q.places[i].before(end) {
				return all
			}
			if value := q.value(i); value != nil {
				all = append(all, entry{q.places[i], value})
			}
		}
	}
	return all
}

func (h *history) each(visit func(name, value []byte) error) error {
	for _, q := range h.parts {
		for i, at := range q.places {
			value := q.value(i)
			if value == nil {
				continue
			}
			if err := visit(at.name(), value); err != nil {
				return err
			}
		}
	}
	return nil
}
