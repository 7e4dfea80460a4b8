package chain

// IdleSessions finds the session entries in which nothing was written for some time (W12), from looks at a table at different
// times. It is used by one goroutine.
type IdleSessions struct {
	marks map[SessionKey]mark
	look  uint32
}

// mark is the last write of a session, as looks saw it.
type mark struct {
	seq   uint64
	since uint64 // time of the first look that saw it
	look  uint32 // number of the last one
}

// NewIdleSessions returns a finder that has not looked yet.
func NewIdleSessions() *IdleSessions { return &IdleSessions{marks: make(map[SessionKey]mark)} }

// Look takes in a table at the time now, and returns the entries without a write for the time after, with the numbers of
// their last writes. each calls its argument with each entry.
func (r *IdleSessions) Look(
	now, after uint64, each func(visit func(SessionKey, Session) bool) error,
) (map[SessionKey]uint64, error) {
	r.look++
	due := make(map[SessionKey]uint64)
	err := each(func(k SessionKey, s Session) bool {
		m, known := r.marks[k]
		if !known || m.seq != s.Seq {
			m = mark{seq: s.Seq, since: now}
		}
		m.look = r.look
		r.marks[k] = m
		if now-m.since >= after {
			due[k] = s.Seq
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for k, m := range r.marks {
		if m.look != r.look {
			delete(r.marks, k)
		}
	}
	return due, nil
}

// Marks returns the number of entries that the last look saw.
func (r *IdleSessions) Marks() int { return len(r.marks) }

// Pressing reports whether a table with so many entries makes room early (W12).
func Pressing(entries, most int) bool { return 4*entries >= 3*most }
