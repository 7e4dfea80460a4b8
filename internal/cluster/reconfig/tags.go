package reconfig

import (
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// TagStep is the phase of a cluster's tags, and the aim (T6).
type TagStep struct {
	Phase wire.Tags
	On    bool   // the aim is [wire.TagsRequired], else [wire.TagsOff]
	Since uint64 // number of the change that set this; 0: the cluster was formed so
}

// FormedTags is the step of a cluster that is formed with or without tags.
func FormedTags(on bool) TagStep {
	if on {
		return TagStep{Phase: wire.TagsRequired, On: true}
	}
	return TagStep{}
}

// Settled reports whether the aim is reached.
func (t TagStep) Settled() bool { return t.Phase.Toward(t.On) == t.Phase }

// follows checks a change's step, which may be none, as the next one after another.
func (t TagStep) follows(old TagStep, change uint64) error {
	if t == (TagStep{}) {
		return nil
	}
	near := t.Phase == old.Phase || t.Phase == old.Phase.Toward(true) || t.Phase == old.Phase.Toward(false)
	if !t.Phase.Valid() || !near || t.Since != change {
		return fmt.Errorf("tags: phase %v of change %d after %v", t.Phase, t.Since, old.Phase)
	}
	return nil
}

// inPhase reports whether a node confirmed the present phase.
func (l *Leader) inPhase(n *node) bool { return n.tagsSince == l.state.Settings.Tags.Since }

// tagsConfirmed notes the phase that a node's data plane is in.
func (l *Leader) tagsConfirmed(n *node, b *Heartbeat) {
	was := l.inPhase(n)
	n.tagsSince, n.noTags = b.TagsSince, b.NoTags
	if !was && l.inPhase(n) && len(n.shards) == 0 {
		l.replan(0) // it could not be given any before
	}
}

// noteTags handles a step that is durable, after another phase.
func (l *Leader) noteTags(before wire.Tags) {
	t := l.state.Settings.Tags
	if t.Phase != before {
		l.retagged = l.time
	}
	aim := "without"
	if t.On {
		aim = "with"
	}
	l.emit(Event{fmt.Sprintf("tags are in phase %v, the aim is messages %s tags", t.Phase, aim)})
}

// checkTags asks for the next phase when it is due.
func (l *Leader) checkTags() {
	if !l.storing && l.tagsDue() {
		l.dirty = true
	}
}

// tagsDue reports whether the next phase may begin: all nodes in good standing confirmed the present one, and clients had
// the time to learn of it.
func (l *Leader) tagsDue() bool {
	return !l.state.Settings.Tags.Settled() && l.time-l.retagged >= l.options.TagsRest && len(l.tagsAwaited()) == 0
}

// tagsAwaited lists the nodes in good standing that have not confirmed the present phase. Others are not waited for: they
// are in no chain, and come back in the phase of that time only.
func (l *Leader) tagsAwaited() (ids []NodeID) {
	for id, n := range l.nodes {
		if !l.state.Nodes[id].Standing.Fenced() && !l.inPhase(n) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// retag begins the next phase when it is due.
func (d *draft) retag() {
	if t := d.l.state.Settings.Tags; d.tags == (TagStep{}) && d.l.tagsDue() {
		d.tags = TagStep{Phase: t.Phase.Toward(t.On), On: t.On, Since: d.number}
	}
}

// checkTagged returns the reason why messages cannot carry tags.
func (l *Leader) checkTagged(on bool) error {
	for _, id := range sorted(l.nodes) {
		n, r := l.nodes[id], l.state.Nodes[id]
		if on && r.Standing != Removed && n.noTags != "" {
			return fmt.Errorf("node %s cannot go along: %s", r.Name, n.noTags)
		}
	}
	return nil
}

// awaitedNames names the nodes that have not confirmed the present phase, and why. The next phase waits for them.
func (l *Leader) awaitedNames() (names []string) {
	for _, id := range l.tagsAwaited() {
		name := l.name(id)
		if why := l.nodes[id].noTags; why != "" {
			name += " (" + why + ")"
		}
		names = append(names, name)
	}
	return names
}
