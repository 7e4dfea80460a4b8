package client

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// verdict is the meaning of an answer for its call.
type verdict uint8

const (
	ignore verdict = iota // wait on
	done                  // the call has ended: see its result and error
	later                 // send the next attempt after a pause (see call.pause)
	again                 // send the next attempt at once
)

// judge interprets an answer. It accepts an answer only by the id of an attempt, which no other attempt of this client
// ever has, and only from a node that may answer that attempt (see answerer). An answer counts for the attempt that it
// names.
//
// For a read, any attempt may give the result: it was read between the call and its return. For a write, all attempts
// carry the same session and seq, which the chain orders at most once (W2) and answers with the version and result
// recorded then. So an OK is final whichever attempt it names: the tail sends it only when every node of the chain holds
// the write and its session, so later epochs hold it too.
//
// A refusal is weaker: only the head records it, and it is lost with the head. It counts only if no attempt was sent in a
// later epoch of the shard than the refused one, because a later head could have accepted that attempt. Attempts of older
// epochs than the refused one are harmless: a head accepts only its own epoch. BUSY and NOT_MINE are not recorded:
// another copy of the same message may have been accepted before, or may be accepted later. They decide the next step,
// and only if they answer the latest attempt. A write that ends with one of them has an unknown outcome.
func (k *call) judge(now time.Time, from netip.AddrPort, m *wire.Message) verdict {
	a := k.recent.find(m.Request)
	if a == nil || m.Key != k.key || m.Shard != k.shard {
		return ignore
	}
	node := k.answerer(a, from)
	if node == nil {
		return ignore
	}
	if a.bundle != nil {
		a.bundle.answered()
		k.client().bundled.Add(1)
	}
	k.measure(now, a, node, m.Status())
	latest := a == k.recent.latest()
	switch status := m.Status(); status {
	case wire.StatusOk:
		return k.succeed(now, a, node, m)
	case wire.StatusBusy:
		if latest && a.bundle != nil { // perhaps only because it was in a bundle (B3)
			k.tried = 0
			return again
		}
		if latest {
			k.cause = fmt.Errorf("%s is %w", node.name, ErrBusy)
			return later
		}
	case wire.StatusNotMine:
		if latest {
			return k.notMine(a, node, m)
		}
	case wire.StatusNotFound:
		if k.kind == wire.OpRead {
			k.fill(now, a, node, m)
			k.outcome.Err = ErrNotFound
			return done
		}
	default:
		if k.kind == wire.OpRead {
			return k.end(fmt.Errorf("%w: %s answered %v", ErrBadRequest, node.name, status))
		}
		if a.route.epoch == k.route.epoch {
			return k.refused(now, a, node, m)
		}
	}
	return ignore
}

// answerer is the node that an answer came from if it may answer the attempt: a member of the chain asked. A bundle
// comes from the node that it went to last, which may be the tail of another chain if there are reads of several in
// it.
func (k *call) answerer(a *attempt, from netip.AddrPort) *member {
	if at := a.route.place(from); at >= 0 {
		return a.route.members[at]
	}
	if a.bundle != nil {
		return k.route.view.byAddr[from]
	}
	return nil
}

// succeed takes an OK.
func (k *call) succeed(now time.Time, a *attempt, node *member, m *wire.Message) verdict {
	if k.kind == wire.OpAdd && len(m.Value) != 8 {
		return ignore // no node says this; the write goes on as if nothing had come
	}
	k.fill(now, a, node, m)
	k.releaseSession()
	return done
}

// fill takes the result over from an answer, whose value it does not copy.
func (k *call) fill(now time.Time, a *attempt, node *member, m *wire.Message) {
	k.outcome.Result = Result{
		Version:  m.Version,
		Node:     node.name,
		Asked:    a.to.name,
		Shard:    m.Shard,
		Epoch:    m.Epoch,
		Hops:     int(m.Hops) + 1,
		Dirty:    m.Flags&wire.FlagDirty != 0,
		Tail:     m.Flags&wire.FlagTail != 0,
		Attempts: int(k.recent.n),
		Elapsed:  k.since(now),
	}
	if m.Status() == wire.StatusOk {
		k.outcome.Value = m.Value
	}
}

// measure takes an answer as a sample of how long the node asked takes. A refusal of a write comes sooner than its end.
func (k *call) measure(now time.Time, a *attempt, node *member, status wire.Status) {
	took, write := k.since(now)-a.sent, k.kind.IsWrite()
	switch {
	case status == wire.StatusBusy || status == wire.StatusNotMine || write && status != wire.StatusOk:
	case a.bundle != nil && !a.bundle.sample(k.start.now.Add(a.sent)):
	case write:
		a.to.writes.sample(took)
	default:
		a.to.reads.sample(took)
		if node == a.to {
			a.to.near.measured(took)
		}
	}
}

// notMine takes a node's word that it does not serve the shard in the client's epoch.
func (k *call) notMine(a *attempt, node *member, m *wire.Message) verdict {
	k.cause = &NotMineError{Node: node.name, Shard: m.Shard, ClientEpoch: a.route.epoch, NodeEpoch: m.Epoch}
	if k.client().options.Follow != nil {
		if m.Epoch > a.route.epoch {
			k.client().stale(k.route.view)
		}
		return later // the newer map ends the pause; an older node is waited for, and others are asked
	}
	anyNode := !k.kind.IsWrite() && k.from().policy != named
	if anyNode && bits.OnesCount8(k.asked) < len(a.route.members) {
		return later // another node of the chain may know better
	}
	if k.kind.IsWrite() && m.Epoch < a.route.epoch {
		return later // it is just starting: nodes answer before they have their configuration
	}
	// A write that meets a later epoch has no chance any more, for a head takes only its own. But it may have been taken
	// before that epoch began: an earlier attempt, or another copy of this one, even if it was the first.
	return k.abandon(k.cause)
}

// refused takes a refusal of a write.
func (k *call) refused(now time.Time, a *attempt, node *member, m *wire.Message) verdict {
	switch status := m.Status(); {
	case status == wire.StatusCASFailed && k.kind == wire.OpCAS:
		k.fill(now, a, node, m)
		return k.end(&CASFailedError{
			Expected: k.op.operand, Version: m.Version, Value: slices.Clone(m.Value),
			ValueUnknown: m.Flags&wire.FlagNoValue != 0,
		})
	case status == wire.StatusBadRequest && k.kind == wire.OpAdd:
		return k.end(ErrNotCounter)
	case status == wire.StatusTooLarge:
		k.alive-- // the node that said so will say so again
		return k.abandon(fmt.Errorf("%w for the cells of %s: %d bytes", ErrTooLarge, node.name, len(k.op.value)))
	case status == wire.StatusFull && m.Flags&wire.FlagNoValue != 0:
		if m.Flags&wire.FlagSession != 0 {
			k.session = nil // the node takes no write in it for some time (W14)
		}
		return k.end(k.full(node, m))
	case status == wire.StatusFull: // of a switch, or an older node: a late copy may still find room
		return k.abandon(k.full(node, m))
	default:
		return k.abandon(fmt.Errorf("%w: %s answered %v", ErrBadRequest, node.name, status))
	}
}
