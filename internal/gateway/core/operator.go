package core

// ExclusionPrefix begins, behind [Options.Prefix], the names of keys that are not placed: a write reached etcd past the
// gateways. The key follows.
const ExclusionPrefix = "excluded/"

// Allowance is an operator's request to end the exclusions of keys, so that gateways place them again. An object that
// lacks the write past the gateways is read until it is removed, and nothing but the exclusion has it removed. So an
// exclusion ends only if the directory does not name the key, and has all entries that gateways made: a client of etcd
// may have deleted the key's, and a gateway whose watch is late reads the object until all have emptied the directory,
// or its session has ended. The caller executes the requests of Next one after the other.
type Allowance struct {
	steps
	g     *Gateway
	left  []string // keys whose exclusions may end
	count int64    // mod_revision of the directory's count while that is so
	// Allowed are the keys whose exclusions have ended.
	Allowed []string
	// Unsure says that the directory lacks entries, and sessions last.
	Unsure bool
}

// Allow begins to end the exclusions of keys. prefix is [Options.Prefix].
func Allow(prefix string, keys []string, without Rule) *Allowance {
	a := &Allowance{g: New(Options{Prefix: prefix, Without: without})}
	n := &a.g.names
	a.ask(Request{Get: []string{n.timeline, n.count}, List: []string{n.directory}}, func(r *Result) {
		for _, key := range keys {
			if _, named := r.KVs[n.directory+key]; !named || !a.g.on(AllowUnplaced) {
				a.left = append(a.left, key)
			}
		}
		a.count = r.KVs[n.count].Mod
		a.g.Within(r.KVs[n.timeline].Value)
		switch {
		case r.Err != nil:
		case a.g.complete(r) || !a.g.on(AllowCounted):
			a.end()
		default:
			a.list(r.Rev)
		}
	})
	return a
}

// list goes on if no session lasts that began before the directory was read. A later one reads the same directory.
func (a *Allowance) list(rev int64) {
	a.ask(Request{Leases: rev}, func(r *Result) {
		if a.Unsure = !a.g.Deserted(r); !a.Unsure {
			a.end()
		}
	})
}

// end ends the next exclusion, unless the directory has changed since it was read.
func (a *Allowance) end() {
	if len(a.left) == 0 {
		return
	}
	n, key := &a.g.names, a.left[0]
	a.left = a.left[1:]
	r := Request{Delete: []string{a.g.options.Prefix + ExclusionPrefix + key}}
	if a.g.on(AllowUnplaced) {
		r.If = append(r.If, Cond{Key: n.directory + key, Kind: CreateIs})
	}
	if a.g.on(AllowCounted) {
		r.If = append(r.If, Cond{Key: n.count, Kind: ModIs, Rev: a.count})
	}
	a.ask(r, func(r *Result) {
		if r.Err == nil && r.Held {
			a.Allowed = append(a.Allowed, key)
			a.end()
		}
	})
}

// Clean is an operator's request to delete all of the gateways' own keys, which begin with a prefix. It is executed only
// if no gateway has a session: gateways rely on these keys while their sessions last.
//
// Requests of gateways that have ended can arrive later. Clients' writes fail at the guard, and requests under the
// lease of a session at the lease. A late entry of the directory names an object that was drawn before any later
// session, which no gateway reads (rule inherited). If the timeline's name is deleted, gateways begin in the first
// timeline: an object of before is met by the rules new-timeline and fresh, as after a restore to before the timeline.
func Clean(prefix string, without Rule) Request {
	r := Request{Spans: []Span{{prefix, Behind(prefix)}}, List: []string{namesBelow(prefix).session}}
	if without&CleanIdle == 0 {
		r.If = []Cond{NoSession(prefix)}
	}
	return r
}

// NoSession is the condition that no gateway has a session.
func NoSession(prefix string) Cond {
	sessions := namesBelow(prefix).session
	return Cond{Key: sessions, End: Behind(sessions), Kind: CreateIs}
}

// Behind is the first key behind those with a prefix, which does not end with the highest byte.
func Behind(prefix string) string {
	end := []byte(prefix)
	end[len(end)-1]++
	return string(end)
}
