package core

// TimelineName is the name of the key, behind [Options.Prefix], of the timeline of etcd's history. It is absent before
// the first restored backup. Objects of different timelines have different keys in the chain.
const TimelineName = "era"

// History decides whether etcd still has the history that the chain's objects come from: an etcd that was restored from
// a backup has another one. A gateway compares it each time before its session counts as extended, and its sessions
// begin in its timeline only: [Gateway.Within]. The gateway that notices the restore first names another timeline. The
// directory is of the old one then, so gateways of the new timeline empty it first, for which they wait until the
// sessions of the old one have ended.
//
// A restore can go unnoticed: the revision may have passed the chain's. That is harmless, since etcd was away for
// longer than a session lasts. Each gateway has begun another session ([Tenure]), under which it reads no object of
// before.
type History struct {
	Cluster  uint64
	Timeline string
	Without  Rule // rules switched off; zero outside tests
}

// Seen is what a gateway compares, in the order in which it is read.
type Seen struct {
	Floor    int64  // a revision that etcd had for certain
	Chain    Answer // the revision object
	Cluster  uint64 // of etcd, as are the others
	Timeline string
	Rev      int64
}

// Continuity is what became of etcd's history.
type Continuity uint8

// The continuities. After the first nothing has to end.
const (
	Same Continuity = iota
	OtherCluster
	OtherTimeline // another gateway noticed that etcd was restored, or the backup is from before the timeline
	Older         // etcd was restored: another timeline begins
)

// Compare compares what was seen.
func (h *History) Compare(s *Seen) Continuity {
	switch {
	case s.Cluster != h.Cluster:
		return OtherCluster
	case s.Timeline != h.Timeline && h.Without&Timeline == 0:
		return OtherTimeline
	case (s.Rev < s.Floor || s.Chain.Status == OK && s.Rev < s.Chain.Rev) && h.Without&NewTimeline == 0:
		return Older
	}
	return Same
}

// Within has sessions begin in a timeline only: [Gateway.Start] follows. In another one, INTENTs would find no objects.
func (g *Gateway) Within(timeline string) { g.timeline = timeline }

func (g *Gateway) inTimeline() []Cond {
	if !g.on(Timeline) {
		return nil
	}
	return []Cond{TimelineIs(g.names.timeline, g.timeline)}
}

// TimelineIs is the condition that the key of the timeline has a value; the first timeline has none.
func TimelineIs(key, timeline string) Cond {
	if timeline == "" {
		return Cond{Key: key, Kind: CreateIs}
	}
	return Cond{Key: key, Kind: ValueIs, Value: timeline}
}

// Tenure is how long a gateway relies on a session: until nine tenths of the lease have passed since it asked for the
// last extension after which it found etcd's history the same. A session that was not extended in time is given up,
// even if etcd has its lease still: etcd may have been restored meanwhile from a backup that has the session. Times are
// in nanoseconds, on a clock that also runs while the machine sleeps.
type Tenure struct {
	Without Rule
	ends    int64 // 0: it has not begun
	until   int64 // messages are shown after a push until then; 0: the chain's revision was not compared yet
	chain   bool  // it was
}

// Begin notes when a lease was asked for that etcd has granted.
func (t *Tenure) Begin(asked, lease int64) { t.ends = asked + Lasting(lease) }

// Extend notes when an extension was asked for after which the history was the same, by what was seen.
func (t *Tenure) Extend(now, asked, lease int64, seen *Seen) {
	if !t.Over(now) {
		t.ends = max(t.ends, asked+Lasting(lease))
		if t.chain = t.chain || seen.Chain.Status != Away; t.chain {
			t.until = t.ends
		}
	}
}

// Reads reports whether reads may be answered from the chain: its revision is not above etcd's.
func (t *Tenure) Reads() bool { return t.chain }

// Over reports whether the session is to be given up. None of its own requests is sent any more: etcd might execute it
// in another history, where its conditions hold by chance. Clients' writes go on until the session's key is gone:
// others wait for it.
func (t *Tenure) Over(now int64) bool { return t.ends != 0 && now >= t.ends && t.Without&Lapse == 0 }

// Lasts reports whether messages may be shown after a push.
func (t *Tenure) Lasts(now int64) bool { return now < t.until }

// Lasting is the part of a lease that counts, since clocks may run apart.
func Lasting(lease int64) int64 { return lease / 10 * 9 }
