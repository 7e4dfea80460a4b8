package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// tagging is how far a node's messages carry tags (T6).
type tagging struct {
	mu     sync.Mutex
	now    tagPhase
	newest tagPhase // that a controller told of
	never  string   // why the plane can have no tags
	cannot string   // why it is not in the newest phase
	news   chan struct{}
}

type tagPhase struct {
	phase wire.Tags
	since uint64
}

func (t *tagging) begin(id *Identity, noTags string) {
	t.now = tagPhase{id.Tags, id.TagsSince}
	t.newest, t.never, t.news = t.now, noTags, make(chan struct{}, 1)
	poke(t.news)
}

// tell notes a phase that a controller told of. Controllers learn of phases one after the other.
func (t *tagging) tell(phase wire.Tags, since uint64) {
	t.mu.Lock()
	if since > t.newest.since && phase.Valid() {
		t.newest = tagPhase{phase, since}
	}
	t.mu.Unlock()
	poke(t.news)
}

func (t *tagging) state() (now, newest tagPhase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.newest
}

func (t *tagging) phase() wire.Tags {
	now, _ := t.state()
	return now.phase
}

// entered notes that the plane is in a phase, or why it is not.
func (t *tagging) entered(p tagPhase, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.cannot = err.Error()
		return
	}
	t.now, t.cannot = p, ""
}

// report says in a heartbeat which phase the plane is in.
func (t *tagging) report(b *reconfig.Heartbeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.TagsSince, b.NoTags = t.now.since, cmp.Or(t.never, t.cannot)
}

// tagsAgain is the pause before the plane is told again of a phase that it refused.
const tagsAgain = time.Second

// keepTags goes to the phases of tags that controllers tell of, and keeps the keys from the first on that needs some.
func (m *membership) keepTags(ctx context.Context) {
	var keys sync.Once
	report := reporter{log: m.log, what: "cannot change the tags of messages; trying again"}
	for {
		var again <-chan time.Time
		now, newest := m.tags.state()
		if newest.phase != wire.TagsOff || now.phase != wire.TagsOff {
			keys.Do(func() { m.start(m.keepKeys) })
		}
		if newest != now {
			err := m.enterTags(newest)
			switch {
			case errors.Is(err, errNoKeys):
				again = time.After(applyAgain)
				err = nil // they are on their way
			case err != nil:
				again = time.After(tagsAgain)
			default:
				poke(m.news)
			}
			report.result(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.tags.news:
		case <-again:
		}
	}
}

var errNoKeys = errors.New("there are no keys yet")

// enterTags brings the plane to a phase. It is confirmed with the next heartbeat.
func (m *membership) enterTags(p tagPhase) (err error) {
	defer func() { m.tags.entered(p, err) }()
	if p.phase != wire.TagsOff && m.keys.Load() == nil {
		return errNoKeys
	}
	if err := m.plane.SetTags(p.phase); err != nil {
		return err
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	id := m.identity
	id.Tags, id.TagsSince = p.phase, p.since
	return m.remember(id)
}
