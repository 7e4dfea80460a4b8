package core

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestProgressIsBounded has a random client and a random store use a stream: it asks only while the client requests
// progress, with pauses, and the client gets no more answers than it has requested and the store has moved.
func TestProgressIsBounded(t *testing.T) {
	for seed := range uint64(200) {
		var p Progress
		random := rand.New(rand.NewPCG(seed, 70))
		now, start := time.Unix(0, 0), time.Unix(0, 0)
		requested, asked := start.Add(-time.Hour), start.Add(-time.Hour)
		revision, told, requests, moves, answers := int64(random.IntN(3)), int64(0), 0, 1, 0
		under := 0 // questions and requests that the store has not answered
		for range 2000 {
			now = now.Add(time.Duration(random.Int64N(int64(3 * time.Millisecond))))
			switch random.IntN(12) {
			case 0:
				if random.IntN(10) == 0 { // seldom enough that the stream becomes silent in between
					p.Requested(now)
					requested, asked = now, now
					requests, under = requests+1, under+1
				}
			case 1, 2:
				revision, moves = revision+1, moves+1
			case 3, 4, 5:
				if under == 0 {
					break
				}
				if under--; random.IntN(3) == 0 { // the store is catching up
					break
				}
				if p.Answered(revision) {
					answers++
				} else if revision > told {
					t.Fatalf("seed %d: an answer with revision %d after %d is left out", seed, revision, told)
				}
				told = max(told, revision)
			default:
				step := p.Next(now, revision)
				since := now.Sub(requested)
				switch {
				case step.Ask && since >= progressFor:
					t.Fatalf("seed %d: asks %v after the last request", seed, since)
				case step.Ask && revision <= told:
					t.Fatalf("seed %d: asks for revision %d, which was told", seed, revision)
				case step.Ask && now.Sub(asked) < progressPause:
					t.Fatalf("seed %d: asks %v after the last question", seed, now.Sub(asked))
				case step.Ask:
					asked, under = now, under+1
				case step.Wait <= 0 && since < progressFor:
					t.Fatalf("seed %d: is silent %v after a request", seed, since)
				case step.Wait > max(longestProgressPause, progressFor-since):
					t.Fatalf("seed %d: waits for %v", seed, step.Wait)
				case step.Awaits != (since < progressFor && revision <= told):
					t.Fatalf("seed %d: %+v at revision %d after %d", seed, step, revision, told)
				}
			}
		}
		if answers > requests+moves {
			t.Errorf("seed %d: %d answers to %d requests and %d moves", seed, answers, requests, moves)
		}
		if requests == 0 && answers > 0 {
			t.Errorf("seed %d: %d answers without a request", seed, answers)
		}
	}
}

// TestProgressPauses: the pause is short while answers bring newer revisions, and grows while the store is catching up.
func TestProgressPauses(t *testing.T) {
	var p Progress
	now := time.Unix(0, 0)
	p.Requested(now)
	if !p.Answered(1) {
		t.Error("the answer to a request is left out")
	}
	pause := func(revision int64) (total time.Duration) {
		for {
			step := p.Next(now, revision)
			if step.Ask {
				return total
			}
			now, total = now.Add(step.Wait), total+step.Wait
		}
	}
	if got := pause(2); got != progressPause {
		t.Errorf("asks %v after a request", got)
	}
	for n, want := range []time.Duration{2 * progressPause, 4 * progressPause, 8 * progressPause} {
		if got := pause(2); got != want {
			t.Errorf("asks %v after question %d without an answer", got, n+1)
		}
	}
	if !p.Answered(2) || p.Answered(2) {
		t.Error("the same answer is passed on twice, or not at all")
	}
	if got := pause(3); got != progressPause {
		t.Errorf("asks %v after an answer", got)
	}
	now = now.Add(progressFor)
	if step := p.Next(now, 4); step != (ProgressStep{}) {
		t.Errorf("%+v when the client requests no more", step)
	}
	p.Requested(now)
	if !p.Answered(2) {
		t.Error("the answer to a second request is left out, because it brings nothing new")
	}
}

// TestCreating: the client waits for a watch from its request until it is told of the watch.
func TestCreating(t *testing.T) {
	var p Progress
	if p.Creating() {
		t.Error("no watch was asked for")
	}
	p.Creates()
	p.Creates()
	if p.Created(1); !p.Creating() {
		t.Error("one of two watches is to come")
	}
	if p.Created(1); p.Creating() {
		t.Error("no watch is to come")
	}
}
