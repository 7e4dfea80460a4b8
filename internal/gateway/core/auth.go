package core

// Authentication decides what etcd's authentication means for a gateway. While it is enabled, gateways pass writes on without
// the guard: users may not read the session. So none may cache until these writes have ended:
//
//   - A gateway learns, before its session counts as extended, whether etcd refuses requests without a token. Then its cache
//     ends. No other gateway answers from the chain either when the lifetime of a session has passed.
//   - From then on it passes calls on, but only while it has seen, within Counts, that etcd refuses such requests.
//   - etcd's authentication revision changes when authentication is disabled. A gateway compares it before its session counts
//     as extended. If it changed, the session does not. When Quiet has passed the gateway begins another session, under which
//     it reads no object from before it.
//   - A gateway that starts has no session under a new authentication revision until Quiet has passed. It notes the revision
//     in etcd, for those that start later.
//
// Times are in nanoseconds, on a clock that also runs while the machine sleeps.
type Authentication struct {
	AuthOptions
	under   uint64 // the authentication revision under which the gateway caches
	seen    uint64 // another one, that etcd had last
	since   int64  // when it was seen first
	ended   bool
	passes  int64 // after the end: no gateway answers from the chain from then on
	refused int64 // after the end: when etcd was asked, the last time that it refused
}

// AuthOptions are fixed for a gateway's life.
type AuthOptions struct {
	Lease   int64 // lifetime of a session
	Counts  int64 // how long a refusal counts
	Quiet   int64 // longer than a refusal counts and a call without the guard takes
	Without Rule
}

// NewAuthentication makes the state of a gateway that starts.
func NewAuthentication(o AuthOptions) *Authentication { return &Authentication{AuthOptions: o} }

// neverChanged is the authentication revision of an etcd without users and roles.
const neverChanged = 1

// Verdict is what a gateway does about its cache.
type Verdict uint8

// The verdicts.
const (
	Go        Verdict = iota // the session counts as extended, or the first one may begin
	Undecided                // not yet
	Renew                    // another session begins
	Note                     // the revision is to be noted in etcd; then the first session may begin
	Over                     // the cache ends: [Authentication.End]
)

func (a *Authentication) on(r Rule) bool { return a.Without&r == 0 }

// settled notes a revision, and reports whether Quiet has passed since it was seen first.
func (a *Authentication) settled(now int64, revision uint64) bool {
	if a.seen != revision {
		a.seen, a.since = revision, now
	}
	return now-a.since >= a.Quiet
}

// Begin decides whether a gateway without a session may begin one. refused says that etcd refuses requests without a token,
// noted is the revision in etcd that another gateway has noted.
func (a *Authentication) Begin(now int64, refused bool, revision, noted uint64) Verdict {
	switch {
	case refused:
		return Over
	case revision <= neverChanged, revision == noted, !a.on(AuthRevision):
		a.under = revision
		return Go
	case !a.settled(now, revision):
		return Undecided
	}
	a.under = revision
	return Note
}

// Prove decides whether the session counts as extended.
func (a *Authentication) Prove(now int64, refused bool, revision uint64) Verdict {
	switch {
	case refused:
		return Over
	case revision == a.under, !a.on(AuthRevision):
		return Go
	case !a.settled(now, revision): // it may have been enabled for a moment, in which others wrote without the guard
		return Undecided
	}
	a.under = revision
	return Renew
}

// End ends the cache. asked is when the request was sent that etcd refused. free says that nothing is placed for certain:
// other gateways cannot place keys, since etcd refuses them too, and none was placed without an acknowledgement of this
// gateway, which acknowledges nothing from here on. So none answers from the chain.
func (a *Authentication) End(now, asked int64, free bool) {
	a.ended, a.passes, a.refused = true, now, asked
	if !free {
		a.passes += a.Lease
	}
}

// Refused notes, after the end of the cache, that etcd refused a request without a token, and when that was sent. If others may
// have begun to cache since the refusal before, calls wait again until none answers from the chain.
func (a *Authentication) Refused(now, asked int64) {
	if now-a.refused >= a.Quiet && a.on(AuthWait) {
		a.passes = now + a.Lease
	}
	a.refused = max(a.refused, asked)
}

// Passes reports whether a call, or its answer, passes without the cache now. If not, it is to be asked again after a time.
func (a *Authentication) Passes(now int64) (yes bool, again int64) {
	switch {
	case !a.ended:
		return false, a.Lease
	case now < a.passes && a.on(AuthWait):
		return false, a.passes - now
	case now-a.refused >= a.Counts && a.on(AuthPass): // others may cache again
		return false, a.Counts / 4
	}
	return true, 0
}
