package agent

import (
	"github.com/netcraq/netcraq/api/agentv1"
)

// info describes the membership for people and tools; nil for none.
func (m *membership) info() *agentv1.Membership {
	if m == nil {
		return nil
	}
	m.applying.Lock()
	id := m.identity
	m.applying.Unlock()
	b := m.status.Load()
	out := &agentv1.Membership{
		Cluster: id.Cluster, Node: id.Node, LeaseLeftUs: m.leaseLeft().Microseconds(), Term: id.Term,
		Refused: b.Refused, Wiping: uint32(b.Wiping),
	}
	for _, l := range m.allLinks() {
		l.mu.Lock()
		a := &agentv1.Attendance{Address: l.address, Trouble: l.trouble}
		if l.name == "" && l.trouble == "" {
			a.Trouble = "not yet welcomed"
		}
		l.mu.Unlock()
		out.Controllers = append(out.Controllers, a)
	}
	for _, c := range b.Copies {
		out.Copies = append(out.Copies, &agentv1.CopiedShard{
			Shard: uint32(c.Shard), Epoch: c.Epoch, Objects: c.Objects, Bytes: c.Bytes, Complete: c.Complete,
		})
	}
	return out
}
