package core

import "testing"

// TestPassesWhileRefused walks through the times at which calls pass by a cache that ended.
func TestPassesWhileRefused(t *testing.T) {
	a := NewAuthentication(AuthOptions{Lease: 50, Counts: 10, Quiet: 40})
	check := func(now int64, want bool) {
		t.Helper()
		if yes, again := a.Passes(now); yes != want || !yes && again <= 0 {
			t.Errorf("at %d: %v, again in %d", now, yes, again)
		}
	}
	check(0, false)
	a.End(100, 99, false)
	a.Refused(130, 129)
	check(149, false) // others answer from the chain
	a.Refused(149, 148)
	check(150, true)
	check(158, false) // the refusal is too old
	a.Refused(160, 159)
	check(161, true)
	a.Refused(198, 197) // authentication was not disabled for long enough that others cache
	check(198, true)
	a.Refused(239, 238) // others may have begun to cache, and answer from the chain for the lifetime of a session
	check(240, false)
	for now := int64(240); now < 290; now += 5 {
		a.Refused(now, now)
	}
	check(289, true)
}

// TestEndOfCache: calls pass at once if nothing was placed for certain. Otherwise others may answer from the chain for
// the lifetime of a session.
func TestEndOfCache(t *testing.T) {
	for free, from := range map[bool]int64{true: 100, false: 150} {
		a := NewAuthentication(AuthOptions{Lease: 50, Counts: 1000, Quiet: 4000})
		a.End(100, 99, free)
		if early, _ := a.Passes(from - 1); early && !free {
			t.Errorf("free %v: a call passes at %d", free, from-1)
		}
		if yes, _ := a.Passes(from); !yes {
			t.Errorf("free %v: no call passes at %d", free, from)
		}
	}
}

// TestRefusalAfterQuiet: others may have begun to cache when Quiet has passed since the last refusal, and not before.
func TestRefusalAfterQuiet(t *testing.T) {
	for at, passes := range map[int64]bool{139: true, 140: false} {
		a := NewAuthentication(AuthOptions{Lease: 50, Counts: 10, Quiet: 40})
		a.End(100, 100, true)
		a.Refused(at, at)
		if yes, _ := a.Passes(at); yes != passes {
			t.Errorf("a refusal at %d: a call passes: %v", at, yes)
		}
	}
}

// TestAnotherAuthenticationRevision walks through a change of the revision that a running gateway sees, and one that starts.
func TestAnotherAuthenticationRevision(t *testing.T) {
	o := AuthOptions{Lease: 50, Counts: 10, Quiet: 40}
	runs, starts := NewAuthentication(o), NewAuthentication(o)
	runs.Begin(0, false, 1, 0)
	for _, step := range []struct {
		now              int64
		refused          bool
		revision, noted  uint64
		running, started Verdict
	}{
		{1, false, 1, 0, Go, Go},
		{10, false, 7, 0, Undecided, Undecided},
		{49, false, 7, 0, Undecided, Undecided},
		{50, false, 8, 0, Undecided, Undecided}, // it was enabled in between
		{89, false, 8, 0, Undecided, Undecided},
		{90, false, 8, 0, Renew, Note},
		{91, false, 8, 8, Go, Go},
		{92, false, 9, 9, Undecided, Go}, // another gateway has waited for the one that starts
		{93, true, 9, 9, Over, Over},
	} {
		if v := runs.Prove(step.now, step.refused, step.revision); v != step.running {
			t.Errorf("at %d, running: %d", step.now, v)
		}
		if v := starts.Begin(step.now, step.refused, step.revision, step.noted); v != step.started {
			t.Errorf("at %d, starting: %d", step.now, v)
		}
	}
}
