package core

import "slices"

// Vacancy finds out, for a gateway that has had no session, whether an etcd without keys of gateways is unused. A client
// of etcd may have deleted the keys. Then gateways answer from the chain until their sessions end, whose leases etcd
// still has. A lease that is granted later shows too: each session writes the key [names.began] when it begins, and a
// condition names its revision. The caller executes the requests of Next one after the
// other.
type Vacancy struct {
	steps
	g      *Gateway
	marked int64 // mod_revision of began, under which the leases were listed; 0: etcd refused to write it
	unused bool
}

// Vacancy begins to find that out. A gateway that has had a session knows that etcd is not unused.
func (g *Gateway) Vacancy() *Vacancy {
	v := &Vacancy{g: g, marked: g.vacant}
	switch {
	case g.used:
	case g.vacant != 0 || !g.on(Unused):
		v.unused = true
	default:
		v.look()
	}
	return v
}

// Conditions are those of a write that etcd executes only if it is unused; ok is false if it may not be.
func (v *Vacancy) Conditions() (all []Cond, ok bool) {
	g := v.g
	switch {
	case !v.unused || g.used:
		return nil, false
	case v.marked != 0: // a session writes it before all other keys
		return []Cond{{Key: g.names.began, Kind: ModIs, Rev: v.marked}}, true
	}
	return empty(g.options.Prefix, g.names.chain, g.names.chain+"\x00", Behind(g.options.Prefix)), true
}

// empty is the conditions that etcd has no keys between the first and the second, the third and the fourth, and so on.
func empty(ends ...string) (all []Cond) {
	for ends := range slices.Chunk(ends, 2) {
		all = append(all, Cond{Key: ends[0], End: ends[1], Kind: CreateIs})
	}
	return all
}

// look reads the mark, or writes it: the key that each session writes that begins.
func (v *Vacancy) look() {
	began := v.g.names.began
	v.ask(Request{If: v.g.Alone(), Get: []string{began}}, func(r *Result) {
		switch kv, is := r.KVs[began]; {
		case r.Err != nil || !r.Held:
		case is:
			v.list(r.Rev, kv.Mod)
		default:
			v.mark(r.Rev)
		}
	})
}

// mark writes the mark. An etcd without space refuses that, and sessions too. Then it goes on without a mark, for one
// write.
func (v *Vacancy) mark(looked int64) {
	began := v.g.names.began
	r := Request{
		If:  append(v.g.Alone(), Cond{Key: began, Kind: CreateIs}),
		Put: []Put{{Key: began, Value: v.g.options.Name}}, Get: []string{began},
	}
	v.ask(r, func(r *Result) {
		switch {
		case r.Err != nil:
			v.list(looked, 0)
		case r.Held:
			v.list(r.Rev, r.KVs[began].Mod)
		default: // another gateway was faster
			v.look()
		}
	})
}

func (v *Vacancy) list(rev, marked int64) {
	v.ask(Request{Leases: rev}, func(r *Result) {
		v.unused, v.marked = v.g.Deserted(r), marked
		if v.unused {
			v.g.vacant = marked
		}
	})
}

// Alone is the conditions that etcd has no keys of gateways but the chain's name and the mark of [Vacancy]; nil: the
// gateway has had a session.
func (g *Gateway) Alone() []Cond {
	n := &g.names
	if g.used {
		return nil
	}
	return empty(g.options.Prefix, n.began, n.began+"\x00", n.chain, n.chain+"\x00", Behind(g.options.Prefix))
}

// Deserted reports whether no session lasts that began until a revision: a list of the sessions' leases of then, or of
// later, is empty. If [Gateway.Alone] held at that revision, nothing was placed then.
func (g *Gateway) Deserted(listed *Result) bool {
	return !listed.Unknown && listed.Err == nil && len(listed.Leases) == 0 || !g.on(Unused)
}
