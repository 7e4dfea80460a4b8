package core

// Audit compares the changes of a key in etcd with the key's object, to find writes past the gateways. A change that no gateway
// made is newer than a readable object: every gateway sets its bit before it writes, and clears it with what it wrote.
type Audit struct {
	Every     int64 // the least time between two comparisons
	unchecked int64 // revision of the newest change that was not compared; 0: none
	compared  int64 // when the last comparison began; 0: none has
}

// Changed notes a change, and reports whether it is compared at once. If the last comparison was a moment ago, the newest change is
// compared later, so that a key that is written all the time costs few comparisons.
func (a *Audit) Changed(now, rev int64) (soon bool) {
	a.unchecked = max(a.unchecked, rev)
	return a.compared == 0 || now-a.compared >= a.Every
}

// Begin begins a comparison, for which the object is to be read. It returns the revision of the change; 0: there is none.
func (a *Audit) Begin(now int64) (rev int64) {
	if a.unchecked != 0 {
		a.compared = now
	}
	return a.unchecked
}

// Compare compares a change of a key with the object that was read since, and reports whether the change was made past the
// gateways. Writes set no bits in an object that the directory does not name. The change is kept while the object does not tell:
// while it is not answered, while the session may have ended, or while a write of a gateway is under way, which may have
// committed before the change. A change that the object's load does not show, although it was read later, is of a
// history of etcd that was lost.
func (g *Gateway) Compare(a *Audit, key string, rev int64, object *Answer) (past bool) {
	o := &object.Object
	named := object.Status == OK && (o.Instance == g.named(key) || !g.on(AuditNamed))
	if g.on(AuditWaits) && (object.Status == Away || named && (o.Bits != 0 || o.Joining || !g.alive())) {
		return false
	}
	if a.unchecked == rev {
		a.unchecked = 0
	}
	return named && g.alive() && o.Readable() && max(o.Rev, o.Floor) < rev
}

// Survey is what etcd has of all gateways at one moment.
type Survey struct {
	Sessions  map[string]bool
	Directory map[string]string // the session that placed each key: [Owner]
}

// Owns reports whether this gateway answers for a placed key: it audits the key, and places it anew or removes it. These are the
// keys that it placed, and those of gateways that are gone.
func (g *Gateway) Owns(s *Survey, key string) bool {
	owner, placed := s.Directory[key]
	return placed && (owner == g.Lease() || !s.Sessions[owner] && g.on(Takeover))
}
