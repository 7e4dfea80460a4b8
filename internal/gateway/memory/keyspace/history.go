package keyspace

import (
	"bytes"
	"math"
	"slices"
	"sort"
)

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
	keys, values [][]byte
	removed      int
}

// at returns the place of the first entry whose key is not below a key: its part and its index there.
func (h *history) at(key []byte) (p, i int) {
	p = sort.Search(len(h.parts), func(p int) bool {
		keys := h.parts[p].keys
		return bytes.Compare(keys[len(keys)-1], key) >= 0
	})
	if p == len(h.parts) {
		return p, 0
	}
	keys := h.parts[p].keys
	return p, sort.Search(len(keys), func(i int) bool { return bytes.Compare(keys[i], key) >= 0 })
}

// put adds or replaces an entry, and returns the growth in bytes.
func (h *history) put(key, value []byte) int64 {
	if value == nil {
		value = []byte{}
	}
	grown := int64(len(key) + len(value))
	p, i := h.at(key)
	switch {
	case p == len(h.parts): // behind all
		if p == 0 || len(h.parts[p-1].keys) >= partEntries {
			h.parts = append(h.parts, &part{
				keys: make([][]byte, 0, partEntries), values: make([][]byte, 0, partEntries),
			})
			p++
		}
		last := h.parts[p-1]
		last.keys, last.values = append(last.keys, key), append(last.values, value)
	case bytes.Equal(h.parts[p].keys[i], key):
		if old := h.parts[p].values[i]; old != nil {
			grown -= int64(len(key) + len(old))
			h.entries--
		} else {
			h.parts[p].removed--
		}
		h.parts[p].values[i] = value
	default:
		q := h.parts[p]
		q.keys, q.values = slices.Insert(q.keys, i, key), slices.Insert(q.values, i, value)
	}
	h.entries++
	h.bytes += grown
	return grown
}

// remove removes an entry, and returns the growth in bytes.
func (h *history) remove(key []byte) int64 {
	p, i := h.at(key)
	if p == len(h.parts) || !bytes.Equal(h.parts[p].keys[i], key) || h.parts[p].values[i] == nil {
		return 0
	}
	q := h.parts[p]
	grown := -int64(len(key) + len(q.values[i]))
	h.entries--
	h.bytes += grown
	q.values[i] = nil
	if q.removed++; q.removed > len(q.keys)/2 {
		h.shrink(p)
	}
	return grown
}

// shrink frees the memory of a part's removed entries, and joins the part with the one before if both are short.
func (h *history) shrink(p int) {
	old, left := h.parts[p], new(part)
	n := len(old.keys) - old.removed
	if p > 0 && len(h.parts[p-1].keys)+n <= partEntries {
		left = h.parts[p-1]
		h.parts = slices.Delete(h.parts, p, p+1)
	} else {
		left.keys, left.values = make([][]byte, 0, n), make([][]byte, 0, n)
		h.parts[p] = left
	}
	for i, value := range old.values {
		if value != nil {
			left.keys, left.values = append(left.keys, old.keys[i]), append(left.values, value)
		}
	}
	if len(left.keys) == 0 {
		h.parts = slices.Delete(h.parts, p, p+1)
	}
}

// find returns up to limit entries from a key to an end, or the one of the key if there is no end. 0: all.
func (h *history) find(key, end []byte, limit int64) (keys, values [][]byte) {
	p, i := h.at(key)
	if len(end) == 0 {
		if p < len(h.parts) && bytes.Equal(h.parts[p].keys[i], key) && h.parts[p].values[i] != nil {
			return [][]byte{h.parts[p].keys[i]}, [][]byte{h.parts[p].values[i]}
		}
		return nil, nil
	}
	if limit <= 0 {
		limit = math.MaxInt64
	}
	for ; p < len(h.parts); p, i = p+1, 0 {
		for q := h.parts[p]; i < len(q.keys); i++ {
			if int64(len(keys)) >= limit || bytes.Compare(q.keys[i], end) >= 0 {
				return keys, values
			}
			if q.values[i] != nil {
				keys, values = append(keys, q.keys[i]), append(values, q.values[i])
			}
		}
	}
	return keys, values
}

func (h *history) each(visit func(key, value []byte) error) error {
	for _, q := range h.parts {
		for i, value := range q.values {
			if value == nil {
				continue
			}
			if err := visit(q.keys[i], value); err != nil {
				return err
			}
		}
	}
	return nil
}
