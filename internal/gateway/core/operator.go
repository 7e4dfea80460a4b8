package core

// ExclusionPrefix begins, behind [Options.Prefix], the names of keys that are not placed: a write reached etcd past the
// gateways. The key follows.
const ExclusionPrefix = "excluded/"

// Allow is an operator's request to end the exclusion of a key, so that gateways place it again. prefix is
// [Options.Prefix]. The request is executed only if the directory does not name the key: an object that lacks the write
// past the gateways is read until it is removed, and nothing but the exclusion has it removed.
func Allow(prefix, key string, without Rule) Request {
	n := namesBelow(prefix)
	r := Request{Delete: []string{prefix + ExclusionPrefix + key}, Get: []string{prefix + ExclusionPrefix + key, n.directory + key}}
	if without&AllowUnplaced == 0 {
		r.If = []Cond{{Key: n.directory + key, Kind: CreateIs}}
	}
	return r
}

// Clean is an operator's request to delete all of the gateways' own keys, which begin with a prefix. It is executed only
// if no gateway has a session: gateways rely on these keys while their sessions last.
//
// Requests of gateways that have ended can arrive later. Clients' writes fail at the guard, and requests under the lease
// of a session at the lease. A late entry of the directory names an object that was drawn before any later session, which
// no gateway reads (rule inherited). If the era's name is deleted, gateways begin in the first era: an object of before is
// met by the rules new-era and fresh, as after a restore to before the era.
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
