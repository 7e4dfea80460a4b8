package soft

import (
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// refusal is the first time that a version was refused because it is dirty, or the last time that it was told of.
type refusal struct{ version, at uint64 }

// Contended implements [dataplane.Plane].
func (p *Plane) Contended() <-chan wire.Key { return p.contended }

// noteContended notes a write that was refused as busy because its object is dirty. A version refused once may be on
// its way; one that is still refused later may be stuck, and its key is reported. The caller holds the lock.
func (p *Plane) noteContended(now uint64, sends []chain.Send) {
	if len(sends) != 1 {
		return
	}
	m := &sends[0].Message
	if m.Op != wire.OpReply || m.Status() != wire.StatusBusy {
		return
	}
	last, dirty := p.dirty[m.Key]
	if !dirty {
		return
	}
	version := p.node.Objects()[m.Key].Version
	again := last.version == version
	if again && now-last.at < uint64(dataplane.ContendedAfter) {
		return
	}
	p.dirty[m.Key] = refusal{version, now}
	if !again {
		return
	}
	select {
	case p.contended <- m.Key:
	default:
	}
}
