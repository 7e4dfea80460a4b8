package core

// A gateway without a session may use etcd only while the directory is empty, since other gateways do not wait for it when they
// place keys. A key that is placed later is loaded with a newer state of etcd, at a newer revision. So this is safe without the
// chain: a write that etcd executes under [Gateway.IfUnplaced], and an answer of a revision at which, or after which, the
// directory was empty.

// Unplaced returns conditions in etcd under which nothing is placed: the count says so. Nothing is either in an etcd
// that is unused: see [Vacancy].
func (g *Gateway) Unplaced() []Cond {
	return []Cond{{Key: g.names.count, Kind: ExistsBelow, Value: fewest}}
}

// IfUnplaced returns the conditions of a write while the gateway does not serve. If they do not hold, and neither do
// those of a [Vacancy], the write waits for a session: [Gateway.Txn].
func (g *Gateway) IfUnplaced() []Cond {
	if !g.on(WriteUnplaced) {
		return nil
	}
	return g.Unplaced()
}

// looks is what a gateway without a lasting session has read of etcd, in the state of any of its members.
type looks struct {
	emptied int64 // the newest revision at which the directory was empty
	same    int64 // the newest one at which the timeline was the gateway's
}

// Looked takes what a member of etcd had at a revision: whether nothing was placed, and whether the timeline
// was the gateway's.
// After the call [Options.Recent] holds for a while. What was seen before is forgotten if it did not: etcd may have
// been restored since.
func (g *Gateway) Looked(rev int64, unplaced, same bool) {
	if !g.recent() {
		g.looks = looks{}
	}
	if unplaced {
		g.looks.emptied = max(g.looks.emptied, rev)
	}
	if same {
		g.looks.same = max(g.looks.same, rev)
	}
}

func (g *Gateway) recent() bool { return g.options.Recent == nil || g.options.Recent() }

// unplaced reports whether a revision may be shown without a push, since nothing was placed then.
func (g *Gateway) unplaced(rev int64) bool {
	return rev <= g.looks.emptied && g.recent() || !g.Serving() && !g.on(ShowUnplaced)
}
