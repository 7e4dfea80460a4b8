package core

// Proof is what a gateway reads of its own keys each time before its session counts as extended: the lease may be alive while
// somebody has deleted a key at etcd, past the gateways.
type Proof struct {
	Keys  []string
	life  *life
	bit   bool
	acked int64
}

// Prove begins a proof of the session with a lease. Its keys are to be read after it.
func (g *Gateway) Prove(lease string) Proof {
	l := g.life
	if l == nil || l.lease != lease || l.over || l.create == 0 {
		return Proof{}
	}
	p := Proof{Keys: []string{g.names.session + lease, g.names.ack + lease}, life: l, bit: l.serving, acked: l.acked}
	if p.bit {
		p.Keys = append(p.Keys, g.bitKey(l.bit))
	}
	return p
}

// Proved reports whether the session is what the gateway takes it for. Other gateways do not wait for a session whose key is
// gone, and may take its bit if that is gone: then the session ends at once, and another begins. An acknowledgement that is gone
// is written again, since others wait for it.
func (g *Gateway) Proved(p Proof, r *Result) bool {
	l := p.life
	switch {
	case l == nil:
		return true
	case l.over || g.life != l:
		return false
	}
	session, is := r.KVs[g.names.session+l.lease]
	if !is || session.Create != l.create || p.bit && !g.hasBit(l, r) {
		g.lost(l)
		return false
	}
	if p.acked > 0 && r.KVs[g.names.ack+l.lease].Value < ackOf(p.acked) {
		l.acked = 0
		g.acknowledge(l)
	}
	return true
}
