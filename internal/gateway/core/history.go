package core

// EraName is the name of the key, behind [Options.Prefix], of the era of etcd's history. It is absent before the first restored
// backup. Objects of different eras have different keys in the chain.
const EraName = "era"

// History decides whether etcd still has the history that the chain's objects come from: an etcd that was restored from a backup has
// another one. A gateway compares it each time before its session counts as extended, and its sessions begin in its era only:
// [Gateway.Within]. The gateway that notices the restore first begins another era, without any session. Then all begin anew.
type History struct {
	Cluster uint64
	Era     string
}

// Seen is what a gateway compares, in the order in which it is read.
type Seen struct {
	Floor   int64  // a revision that etcd had for certain
	Chain   Answer // the revision object
	Cluster uint64 // of etcd, as are the others
	Era     string
	Rev     int64
}

// Continuity is what became of etcd's history.
type Continuity uint8

// The continuities. After the first two nothing has to end.
const (
	Same    Continuity = iota
	Unnamed            // somebody deleted the era's name: it is written again before the session counts as extended
	OtherCluster
	OtherEra // another gateway noticed that etcd was restored
	Older    // etcd was restored: another era begins
)

// Compare compares what was seen.
func (h *History) Compare(s *Seen) Continuity {
	switch {
	case s.Cluster != h.Cluster:
		return OtherCluster
	case s.Era == "" && h.Era != "" && s.Rev >= max(s.Floor, s.Chain.Rev):
		return Unnamed
	case s.Era != h.Era:
		return OtherEra
	case s.Rev < s.Floor || s.Chain.Status == OK && s.Rev < s.Chain.Rev:
		return Older
	}
	return Same
}

// Within has sessions begin in an era only: [Gateway.Start] follows. In another one, INTENTs would find no objects.
func (g *Gateway) Within(era string) { g.era = era }

func (g *Gateway) inEra() []Cond {
	if g.era == "" {
		return []Cond{{Key: g.names.era, Kind: CreateIs}}
	}
	return []Cond{{Key: g.names.era, Kind: ValueIs, Value: g.era}}
}
