package core

import "testing"

// pair is a machine of member 1, whose caller answers at once, and a member 2 that is ready for whatever member 1 does.
type pair struct {
	t       *testing.T
	m       *Machine
	now     int64
	records [2]Record
	objects map[uint64]Object
	version uint64
	applied Point
	reads   int // of the register
	writes  int
}

const (
	pairTTL   = 3000
	pairEvery = 50
)

// joined returns a pair that reads through the chain, with nothing left to be done.
func joined(t *testing.T) *pair {
	t.Helper()
	p := &pair{
		t: t, m: New(Options{Member: 1, Life: 7, TTL: pairTTL, Every: pairEvery, Patience: pairTTL, Rest: pairTTL}),
		records: [2]Record{1: {Number: 9}}, objects: make(map[uint64]Object), applied: Point{5, 5},
	}
	p.sample()
	for i := 0; !p.m.Status(p.now).Reading; i++ {
		if i == 20 {
			t.Fatalf("it does not read: %+v", p.m.Status(p.now))
		}
		p.pass(pairEvery)
	}
	return p
}

func (p *pair) sampled() Sample {
	return Sample{Asked: p.now, Members: []Member{{1, p.records[0]}, {2, p.records[1]}}, Applied: p.applied}
}

func (p *pair) sample() {
	p.m.Applied(p.now, p.sampled())
	p.perform()
}

func (p *pair) pass(time int64) {
	p.now += time
	p.m.Tick(p.now)
	p.perform()
}

// perform does what the machine wants done.
func (p *pair) perform() {
	p.t.Helper()
	for actions := p.m.Actions(); len(actions) > 0; actions = p.m.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case Propose:
				p.records[0] = a.Record
				p.records[1].View = p.sampledView()
				p.m.Applied(p.now, p.sampled())
			case Renew:
				p.m.Renewed(p.now, p.now, p.sampled(), true)
			case ReadObjects:
				var found []Found
				for _, id := range a.Members {
					o, exists := p.objects[id]
					found = append(found, Found{Exists: exists, Version: p.version, Epoch: 1, Value: o.Encode()})
				}
				if len(a.Members) == len(p.records) {
					p.reads++
				}
				p.m.Objects(p.now, a.Call, found, true)
			case WriteObject:
				p.writes++
				p.version++
				p.objects[1] = a.Object
				p.m.Written(p.now, a.Call, Done, p.version)
			}
		}
	}
}

// sampledView is the view of both members. Member 2 has an object for it.
func (p *pair) sampledView() uint64 {
	view := View([]Member{{1, p.records[0]}, {2, p.records[1]}})
	if p.objects[2].View != view {
		p.objects[2] = Object{View: view}
	}
	return view
}

// applies applies a revision, which the other member has pushed or not, and lets time pass.
func (p *pair) applies(revision int64, pushed bool) {
	p.applied = Point{revision, uint64(revision)}
	p.sample()
	if pushed {
		p.objects[2] = Object{p.objects[2].View, p.applied}
	}
	p.pass(pairEvery)
}

// TestPushesAreLeftToOthers: what nobody waits for here is pushed by the member whose client waits for it, and by this
// one only if the register does not have it after a while.
func TestPushesAreLeftToOthers(t *testing.T) {
	p := joined(t)
	p.pass(pairEvery)
	writes, reads := p.writes, p.reads
	for revision := int64(10); revision < 20; revision++ {
		p.applies(revision, true)
	}
	if p.writes != writes {
		t.Errorf("%d writes of the chain for 10 revisions that the other member had pushed", p.writes-writes)
	}
	if n := p.reads - reads; n < 9 || n > 12 {
		t.Errorf("%d reads of the register for 10 revisions", n)
	}
	p.applies(20, false)
	p.pass(pairEvery)
	if p.writes != writes+1 || p.objects[1].Point != p.applied {
		t.Errorf("%d writes after a revision that nobody has pushed; the object has %v", p.writes-writes, p.objects[1].Point)
	}
	p.m.Reveal(p.now, 1, Point{Revision: 21}, Write)
	p.perform()
	if p.writes != writes+2 {
		t.Errorf("%d writes after a revision that a client waits for", p.writes-writes)
	}
}
