package peer

import (
	"bytes"
	"context"
)

// multiGetBytes bounds a get of several keys so that it fits one frame.
const multiGetBytes = 1400

// GetMany requests many keys per datagram, once. It then requests the keys still unanswered,
// because a datagram was lost or the key has no value, with one key per datagram.
func (s *memcached) GetMany(ctx context.Context, keys []string, got func(int, []byte, error)) {
	m := newMultiGet(keys, got)
	if len(keys) > 1 {
		// The requests below report the same error.
		_ = s.links.once(m.requests(), func(i int) int { return m.groups[i].size() }, m.answer)
	}
	var requests [][]byte
	var open []int
	for i, key := range keys {
		if !m.done[i] {
			requests, open = append(requests, getRequest(key)), append(open, i)
		}
	}
	if len(open) == 0 {
		return
	}
	s.links.exchange(ctx, requests, func(i int, answer []byte, err error) {
		var value []byte
		if err == nil {
			value, err = parseGet(answer)
		}
		got(open[i], value, err)
	})
}

// keyGroup is the keys of one request, a range of all keys.
type keyGroup struct {
	first, end int
	next       int // where the search for the next answer starts; answers come in key order
}

func (g *keyGroup) size() int { return g.end - g.first }

// multiGet reads keys, many per request. Keys may be duplicates.
type multiGet struct {
	keys   []string
	got    func(i int, value []byte, err error)
	done   []bool
	groups []keyGroup
}

func newMultiGet(keys []string, got func(int, []byte, error)) *multiGet {
	return &multiGet{keys: keys, got: got, done: make([]bool, len(keys))}
}

// requests groups the keys in order, as many per request as fit.
func (m *multiGet) requests() [][]byte {
	const room = multiGetBytes - datagramHeader - len(lineEnd)
	var all [][]byte
	for i, key := range m.keys {
		if n := len(all); n == 0 || len(all[n-1])+len(" ")+len(key) > room {
			all, m.groups = append(all, []byte("get")), append(m.groups, keyGroup{first: i, next: i})
		}
		n := len(all) - 1
		all[n] = append(append(all[n], ' '), key...)
		m.groups[n].end = i + 1
	}
	for i := range all {
		all[i] = append(all[i], lineEnd...)
	}
	return all
}

// answer handles a datagram. The end marker means that no more answers follow. Memcached versions
// other than 1.6 may split a value over two datagrams; such a value counts as lost.
func (m *multiGet) answer(i int, datagram []byte) (answers int) {
	g := &m.groups[i]
	for {
		key, value, rest, ok := cutValue(datagram)
		if !ok {
			break
		}
		if at := m.find(g, key); at >= 0 {
			m.done[at] = true
			m.got(at, bytes.Clone(value), nil)
			answers++
		}
		datagram = rest
	}
	if bytes.HasPrefix(datagram, []byte("END")) {
		return g.size()
	}
	return answers
}

// find returns the index of an unanswered occurrence of key, or -1.
func (m *multiGet) find(g *keyGroup, key []byte) int {
	for range g.size() {
		at := g.next
		if g.next++; g.next == g.end {
			g.next = g.first
		}
		if !m.done[at] && m.keys[at] == string(key) {
			return at
		}
	}
	return -1
}

func (s *memcached) PutMany(ctx context.Context, keys []string, value []byte, done func(int, error)) {
	requests := make([][]byte, len(keys))
	for i, key := range keys {
		requests[i] = setRequest(key, value)
	}
	s.links.exchange(ctx, requests, func(i int, answer []byte, err error) {
		if err == nil {
			err = parseSet(answer)
		}
		done(i, err)
	})
}
