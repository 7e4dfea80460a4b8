package core

// A gateway without a session may use etcd only while the directory is empty, since other gateways do not wait for it when they
// place keys. A key that is placed later is loaded with a newer state of etcd, at a newer revision. So this is safe without the
// chain: a write that etcd executes under [Gateway.IfUnplaced], and an answer of a revision at which, or after which, the
// directory was empty.

// IfUnplaced returns the conditions of a write while the gateway does not serve. If they do not hold, the write waits for a session:
// [Gateway.Txn].
func (g *Gateway) IfUnplaced() []Cond {
	if !g.on(WriteUnplaced) {
		return nil
	}
	last := len(g.names.directory) - 1
	end := g.names.directory[:last] + string(g.names.directory[last]+1)
	return []Cond{{Key: g.names.directory, End: end, Kind: CreateIs}}
}

// Looked takes how many entries the directory had at a revision, in the state of any of etcd's members.
func (g *Gateway) Looked(rev int64, entries int) {
	if entries == 0 {
		g.emptied = max(g.emptied, rev)
	}
}

// unplaced reports whether a revision may be shown without a push, since nothing was placed then.
func (g *Gateway) unplaced(rev int64) bool {
	return rev <= g.emptied || !g.Serving() && !g.on(ShowUnplaced)
}
