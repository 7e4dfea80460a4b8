package core

import "time"

// Progress decides when a stream of watches is told its progress, beside the answers to its client's own requests.
//
// A client that waits until its copy of some keys has a revision requests progress, and etcd answers once. An API
// server requests at most every 100 ms. So progress goes on after a request: whenever the store has a newer revision,
// at most every few milliseconds, until the client has not requested progress for a while. A stream whose client never
// requests progress is told nothing.
//
// Progress only asks for answers. The store makes them, when all watches of the stream have had all events. etcd keeps
// the answer that it has created a watch apart from events and progress, so that answer may overtake a progress that
// was made before: the client would believe that the new watch has had events that are still to come. Progress leaves
// these answers out.
type Progress struct {
	requested time.Time     // when the client requested progress last; zero: never
	unmet     int           // requests of the client without an answer
	told      int64         // newest revision in an answer
	asked     time.Time     // when the store was asked last
	pause     time.Duration // from then on until it is asked again

	open             int // questions, of the client or of this stream, to which there was no answer
	creates, created int // watches that the client has asked for, and those that it was told of
	creating         []create
	stale            int   // so many of the next answers may be older than a watch that the client was told of
	limit            int64 // if their revision is not greater than this
}

// create is the creation of a watch that the client has asked for while there were open questions.
type create struct{ number, open int }

const (
	// progressFor is how long after a request of its client a stream is told more. An API server that waits requests
	// progress again after 100 ms.
	progressFor = 250 * time.Millisecond
	// progressPause is the least time between two of the answers that the client did not request.
	progressPause = 5 * time.Millisecond
	// longestProgressPause bounds the pause after questions that had no answer with a newer revision. The store answers
	// none while it catches up with a watch.
	longestProgressPause = 100 * time.Millisecond
)

// ProgressStep is what a stream does next. If it neither asks nor waits, it does nothing until the client requests
// progress.
type ProgressStep struct {
	Ask    bool          // ask the store for the stream's progress
	Wait   time.Duration // take the next step after this time
	Awaits bool          // or when the store has a newer revision
}

// Requested notes a request of the client, which the store gets.
func (p *Progress) Requested(now time.Time) {
	p.requested, p.asked, p.pause = now, now, progressPause
	p.unmet++
	p.open++
}

// Creates notes that the client asks for a watch.
func (p *Progress) Creates() {
	p.creates++
	if p.open > 0 {
		p.creating = append(p.creating, create{p.creates, p.open})
	}
}

// Creating reports whether the client was not told yet of a watch that it has asked for.
func (p *Progress) Creating() bool { return p.created < p.creates }

// Created notes that the client is told of the next watch, with the store's revision when it existed.
func (p *Progress) Created(revision int64) {
	p.created++
	if len(p.creating) > 0 && p.creating[0].number == p.created {
		p.stale, p.limit = max(p.stale, p.creating[0].open), max(p.limit, revision)
		p.creating = p.creating[1:]
	}
}

// Began reports whether the client has ever requested progress.
func (p *Progress) Began() bool { return !p.requested.IsZero() }

// Active reports whether the client has requested progress lately.
func (p *Progress) Active(now time.Time) bool {
	return p.Began() && now.Sub(p.requested) < progressFor
}

// Next returns the next step. newest is the store's revision.
func (p *Progress) Next(now time.Time, newest int64) ProgressStep {
	if !p.Active(now) {
		return ProgressStep{}
	}
	if newest <= p.told {
		return ProgressStep{Wait: progressFor - now.Sub(p.requested), Awaits: true}
	}
	if since := now.Sub(p.asked); since < p.pause {
		return ProgressStep{Wait: p.pause - since}
	}
	p.asked, p.pause = now, min(2*p.pause, longestProgressPause)
	p.open++
	return ProgressStep{Ask: true}
}

// Answered notes an answer of the store, and reports whether the client gets it: it has a newer revision than the one
// before, or the client has requested it.
func (p *Progress) Answered(revision int64) bool {
	p.open = max(0, p.open-1)
	for i := range p.creating {
		p.creating[i].open = max(0, p.creating[i].open-1)
	}
	if revision > p.limit {
		p.stale = 0
	}
	if p.stale > 0 {
		p.stale--
		if p.unmet > 0 {
			p.told = min(p.told, revision-1) // so that the store is asked again
		}
		return false
	}
	newer := revision > p.told
	if newer {
		p.told, p.pause = revision, progressPause
	}
	if !newer && p.unmet == 0 {
		return false
	}
	p.unmet = max(0, p.unmet-1)
	return true
}
