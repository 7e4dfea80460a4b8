package keyspace

import (
	"math"
	"slices"
)

const (
	// partEntries is the most entries of a part.
	partEntries = 512
	// slabBytes is the most that the values of a part take, besides large ones.
	slabBytes = 64 << 10
	// largeBytes is the length of a value from which on it is kept by itself. A slab lacks less to its whole length.
	largeBytes = 4 << 10
	// tidyPart: a part is copied after a compaction if more than one of so many entries were removed.
	tidyPart = 16
	// tidyParts are copied at a time: about a millisecond.
	tidyParts = 16
)

// part is a run of entries. Their values stand one after another in one slab, so that a value takes its length of
// memory, without a size class, and the garbage of commands does not lie between values that stay. A value that was read
// stays as it is: slabs are appended to, and replaced.
type part struct {
	places  []place
	values  []span
	slab    []byte
	large   [][]byte
	removed int
}

// span is where a value stands in a slab, or the number of a large one, with its end isLarge.
type span struct{ from, end uint32 }

const isLarge = math.MaxUint32

// gone is the span of an entry that was removed.
var gone = span{from: 1}

// value returns the value of an entry; nil: it was removed.
func (q *part) value(i int) []byte {
	switch v := q.values[i]; {
	case v == gone:
		return nil
	case v.end == isLarge:
		return q.large[v.from]
	default:
		return q.slab[v.from:v.end:v.end]
	}
}

// keep takes a value into the part.
func (q *part) keep(value []byte) span {
	if len(value) >= largeBytes {
		q.large = append(q.large, value)
		return span{uint32(len(q.large) - 1), isLarge}
	}
	from := len(q.slab)
	q.slab = append(q.slab, value...)
	return span{uint32(from), uint32(len(q.slab))}
}

// remove removes an entry's value. That of a slab takes memory until the part is joined.
func (q *part) remove(i int) {
	if v := q.values[i]; v.end == isLarge {
		q.large[v.from] = nil
	}
	q.values[i] = gone
	q.removed++
}

// fits reports whether a value can be appended.
func (q *part) fits(value []byte) bool {
	return len(q.places) < partEntries && (len(value) >= largeBytes || len(q.slab)+len(value) <= slabBytes)
}

// seal frees the unused capacity of a part. It leaves that of the slab if it is less than a large value.
func (q *part) seal() {
	q.places, q.values = slices.Clone(q.places), slices.Clone(q.values)
	if cap(q.slab)-len(q.slab) > largeBytes {
		q.slab = append(make([]byte, 0, len(q.slab)), q.slab...)
	}
}

// size returns what is left of a part: entries, large ones among them, and bytes of the slab.
func (q *part) size() (entries, large, bytes int) {
	for _, v := range q.values {
		switch {
		case v == gone:
		case v.end == isLarge:
			large++
		default:
			bytes += int(v.end - v.from)
		}
	}
	return len(q.values) - q.removed, large, bytes
}

// joins reports whether what is left of two parts fits into one.
func (q *part) joins(other *part) bool {
	n, _, bytes := q.size()
	m, _, more := other.size()
	return n+m <= partEntries && bytes+more <= slabBytes
}

// join makes one part of what is left of parts. It takes no more memory than that.
func join(parts ...*part) *part {
	var entries, large, bytes int
	for _, q := range parts {
		n, l, b := q.size()
		entries, large, bytes = entries+n, large+l, bytes+b
	}
	left := &part{
		places: make([]place, 0, entries), values: make([]span, 0, entries), slab: make([]byte, 0, bytes),
	}
	if large > 0 {
		left.large = make([][]byte, 0, large)
	}
	for _, q := range parts {
		for i, at := range q.places {
			if value := q.value(i); value != nil {
				left.places, left.values = append(left.places, at), append(left.values, left.keep(value))
			}
		}
	}
	return left
}
