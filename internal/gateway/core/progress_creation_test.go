package core

import (
	"math/rand/v2"
	"testing"
	"time"
)

// modelWatch is a watch of a modelled store, from a revision in the past on.
type modelWatch struct {
	synced, known bool  // it has had all events; the client was told of it
	told          int64 // progress that the client was told since then
	next          int64 // the first event that did not come
}

// modelStore has the order of etcd's answers: those about creations may overtake events and progress.
type modelStore struct {
	t        *testing.T
	seed     uint64
	revision int64
	watches  []*modelWatch
	creates  []func() // to be sent
	events   []func() // to be sent
	told     int64    // to the client
}

// ask has the store answer with progress, if all watches have had all events.
func (m *modelStore) ask(p *Progress) {
	for _, w := range m.watches {
		if !w.synced {
			return
		}
	}
	revision := m.revision
	m.events = append(m.events, func() {
		if !p.Answered(revision) {
			return
		}
		m.told = revision
		for _, w := range m.watches {
			if w.known {
				w.told = max(w.told, revision)
			}
		}
	})
}

// create makes a watch from the first revision on.
func (m *modelStore) create(p *Progress) {
	p.Creates()
	w := &modelWatch{next: 1}
	m.watches = append(m.watches, w)
	revision := m.revision
	m.creates = append(m.creates, func() {
		p.Created(revision)
		w.known = true
	})
}

// sync sends a watch the events that it has not had.
func (m *modelStore) sync(w *modelWatch) {
	from, to := w.next, m.revision
	w.synced, w.next = true, to+1
	m.events = append(m.events, func() {
		if from <= to && w.told >= from {
			m.t.Fatalf("seed %d: events from revision %d on follow progress of %d", m.seed, from, w.told)
		}
	})
}

// send sends the next answer. Events of a watch follow the answer that it was created, as etcd sees to it.
func (m *modelStore) send(random *rand.Rand) {
	queue := &m.events
	if len(m.creates) > 0 && (len(m.events) == 0 || random.IntN(2) == 0) {
		queue = &m.creates
	}
	if len(*queue) > 0 {
		next := (*queue)[0]
		*queue = (*queue)[1:]
		next()
	}
}

// TestProgressOfNewWatches creates watches of the past while progress is under way. No progress may tell the client of
// events that a watch has not had, and it is told everything in the end.
func TestProgressOfNewWatches(t *testing.T) {
	for seed := range uint64(2000) {
		var p Progress
		random := rand.New(rand.NewPCG(seed, 71))
		m, now := &modelStore{t: t, seed: seed, revision: 1}, time.Unix(0, 0)
		for range 300 {
			now = now.Add(time.Duration(random.Int64N(int64(5 * time.Millisecond))))
			switch random.IntN(10) {
			case 0:
				p.Requested(now)
				m.ask(&p)
			case 1:
				if p.Next(now, m.revision).Ask {
					m.ask(&p)
				}
			case 2:
				m.revision++
				for _, w := range m.watches {
					w.synced = false
				}
			case 3:
				if len(m.watches) < 5 {
					m.create(&p)
				}
			case 4, 5:
				for _, w := range m.watches {
					if !w.synced && random.IntN(2) == 0 {
						m.sync(w)
					}
				}
			default:
				m.send(random)
			}
		}
		for requests := 0; m.told < m.revision; requests++ {
			if requests > 400 {
				t.Fatalf("seed %d: progress of revision %d after %d requests, want %d", seed, m.told, requests, m.revision)
			}
			for _, w := range m.watches {
				m.sync(w)
			}
			now = now.Add(100 * time.Millisecond)
			p.Requested(now)
			m.ask(&p)
			for len(m.events)+len(m.creates) > 0 {
				m.send(random)
			}
		}
	}
}
