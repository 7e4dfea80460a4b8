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

// partEntries is the length of a part.
const partEntries = 512

// part is a run of entries. An entry without a value was removed.
type part struct {
	places  []place
	values  [][]byte
	removed int
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
		return h.parts[p].values[i]
	}
	return nil
}

// put adds or replaces an entry, and returns the growth in bytes.
func (h *history) put(at place, value []byte) int64 {
	if value == nil {
		value = []byte{}
	}
	grown := at.bytes() + int64(len(value))
	p, i := h.at(at)
	switch {
	case p == len(h.parts): // behind all
		if p == 0 || len(h.parts[p-1].places) >= partEntries {
			h.parts = append(h.parts, &part{
				places: make([]place, 0, partEntries), values: make([][]byte, 0, partEntries),
			})
			p++
		}
		last := h.parts[p-1]
		last.places, last.values = append(last.places, at), append(last.values, value)
	case h.parts[p].places[i] == at:
		if old := h.parts[p].values[i]; old != nil {
			grown -= at.bytes() + int64(len(old))
			h.entries--
		} else {
			h.parts[p].removed--
		}
		h.parts[p].values[i] = value
	default:
		q := h.parts[p]
		q.places, q.values = slices.Insert(q.places, i, at), slices.Insert(q.values, i, value)
	}
	h.entries++
	h.bytes += grown
	return grown
}

// remove removes an entry, and returns the growth in bytes.
func (h *history) remove(at place) int64 {
	p, i := h.at(at)
	if p == len(h.parts) || h.parts[p].places[i] != at || h.parts[p].values[i] == nil {
		return 0
	}
	q := h.parts[p]
	grown := -at.bytes() - int64(len(q.values[i]))
	h.entries--
	h.bytes += grown
	q.values[i] = nil
	if q.removed++; q.removed > len(q.places)/2 {
		h.shrink(p)
	}
	return grown
}

// shrink frees the memory of a part's removed entries, and joins the part with the one before if both are short.
func (h *history) shrink(p int) {
	old, left := h.parts[p], new(part)
	n := len(old.places) - old.removed
	if p > 0 && len(h.parts[p-1].places)+n <= partEntries {
		left = h.parts[p-1]
		h.parts = slices.Delete(h.parts, p, p+1)
	} else {
		left.places, left.values = make([]place, 0, n), make([][]byte, 0, n)
		h.parts[p] = left
	}
	for i, value := range old.values {
		if value != nil {
			left.places, left.values = append(left.places, old.places[i]), append(left.values, value)
		}
	}
	if len(left.places) == 0 {
		h.parts = slices.Delete(h.parts, p, p+1)
	}
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
			if q.values[i] != nil {
				all = append(all, entry{q.places[i], q.values[i]})
			}
		}
	}
	return all
}

func (h *history) each(visit func(name, value []byte) error) error {
	for _, q := range h.parts {
		for i, value := range q.values {
			if value == nil {
				continue
			}
			if err := visit(q.places[i].name(), value); err != nil {
				return err
			}
		}
	}
	return nil
}
