package p4

import (
	"errors"
	"fmt"
	"net/netip"

	artefacts "github.com/netcraq/netcraq/p4"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Harness is a node on a switch without interfaces, for tests and simulations. It gets one frame at a time.
type Harness struct {
	*Node
	sw  Switch
	now uint64
}

// NewHarness makes a node without state, whose switch knows a way to each of the hosts. program is the compiled
// program; nil: that of nodes.
func NewHarness(program []byte, self netip.AddrPort, o chain.Options, hosts []netip.Addr,
	macOf func(netip.Addr) [6]byte) (*Harness, error) {
	if program == nil {
		program = artefacts.Program
	}
	sw, err := StartSWX(program, EngineMegabytes)
	if err != nil {
		return nil, err
	}
	return HarnessOn(sw, self, o, hosts, macOf)
}

// HarnessOn is NewHarness on a switch without state, which it closes.
func HarnessOn(sw Switch, self netip.AddrPort, o chain.Options, hosts []netip.Addr,
	macOf func(netip.Addr) [6]byte) (*Harness, error) {
	var err error
	m := &Harness{sw: sw}
	if m.Node, err = NewNode(sw, self, o); err == nil {
		var r Request
		for _, h := range hosts {
			r.Insert(routeEntry(nodeControl, h, way{source: macOf(self.Addr()), destination: macOf(h)}))
		}
		err = sw.Do(&r)
	}
	if err != nil {
		return nil, errors.Join(err, sw.Close())
	}
	return m, nil
}

// Clear makes the node one without state, configuration or counts.
func (m *Harness) Clear() error {
	used, err := m.clearSessions()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var r Request
	var counted []int
	for shard, c := range m.configs {
		r.Delete(m.shardEntry(shard, &c))
		m.removeMembers(&r, shard, &c)
		delete(m.leases, shard)
		m.lease(&r, shard, false)
		r.Write(regShardReads, int(shard), 0)
		r.Write(regShardWrites, int(shard), 0)
	}
	for k := range m.places {
		m.take(&r, k)
	}
	for _, at := range used {
		freeEntry(&r, at)
	}
	if m.stepper == nil {
		r.Write(regSessionEntriesUsed, 0, 0)
	}
	r.Scan(regOutcomes, 0, counterArray, func(i int, _ uint64) { counted = append(counted, i) })
	if err := m.do(&r); err != nil {
		return err
	}
	r = Request{}
	for _, i := range counted {
		r.Write(regOutcomes, i, 0)
	}
	m.hearts = chain.New(m.options)
	m.configs, m.leases, m.renewed = make(map[uint16]chain.ShardConfig), make(map[uint16]uint64), 0
	m.nodeLease(&r)
	m.keys, m.used, m.free = m.keys[:0], m.used[:0], m.free[:0]
	return m.do(&r)
}

// clearSessions lists the session entries in use, and frees them if the switch has no registers.
func (m *Harness) clearSessions() (used []int, err error) {
	entries, err := m.entriesUsed()
	if err != nil || entries == 0 {
		return nil, err
	}
	if m.stepper == nil {
		return m.usedEntries(0, m.slots())
	}
	var keys []chain.SessionKey
	err = m.visitEntries(everyShard, func(l *sessionEntry) (bool, error) {
		keys = append(keys, l.key)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil, m.freeAll(keys, always)
}

func always(chain.SessionKey, *chain.Session) bool { return true }

// SetClock stops the clock of the leases at a time.
func (m *Harness) SetClock(now uint64) error {
	m.now, m.stopped = now, now != 0
	m.ahead.Store(0)
	return m.sw.SetClock(now)
}

// Run hands in one frame, and returns what the node sent and, if it left the frame to the host, that.
func (m *Harness) Run(frame []byte) (sent, passed [][]byte, err error) {
	left, err := m.try(0, frame)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(left); i++ {
		switch left[i].Port {
		case PortHost:
			passed = append(passed, left[i].Frame)
		case portDrop:
		case PortCPU:
			switch left[i].Frame[offReason] {
			case cpuHeartbeat:
				answer, err := m.beats(m.now, left[i].Frame[PlatformBytes:])
				if err != nil {
					return nil, nil, err
				}
				if answer != nil {
					sent = append(sent, answer)
				}
				continue
			case cpuRoute:
				return nil, nil, fmt.Errorf("the switch knows no way for %x", left[i].Frame)
			}
			port, again, err := m.wants(left[i].Frame)
			if err != nil {
				return nil, nil, err
			}
			more, err := m.try(port, again)
			if err != nil {
				return nil, nil, err
			}
			left = append(left, more...)
		default:
			sent = append(sent, left[i].Frame)
		}
	}
	return sent, passed, nil
}

func (m *Harness) try(port int, frame []byte) ([]Left, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sw.Try(port, frame)
}

// PutObject stores an object as it is.
func (m *Harness) PutObject(k wire.Key, o chain.Object) error {
	if len(o.Value) > m.options.CellBytes {
		return fmt.Errorf("object %v has %d bytes, this node's cells have %d", k, len(o.Value), m.options.CellBytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var r Request
	place, ok := m.place(k)
	if !ok {
		if place, ok = m.give(&r, k); !ok {
			return fmt.Errorf("object %v: no place", k)
		}
	}
	c := cellOf(&o)
	if m.stepper == nil {
		writeCell(&r, place, &c)
		return m.do(&r)
	}
	m.zero(&r, place)
	mergePlace(&r, place, &o)
	for i, count := range []uint64{o.Reads, o.Writes} {
		r.Write(countArrays[i], int(place), count)
	}
	return m.do(&r)
}

// PutSession stores a session as it is.
func (m *Harness) PutSession(k chain.SessionKey, s chain.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions := []dataplane.KeyedSession{{Key: k, Session: s}}
	var done int
	var err error
	if m.stepper == nil {
		done, err = m.putEntries(sessions, false)
	} else if err = m.freeAll([]chain.SessionKey{k}, always); err == nil {
		done, err = m.record(sessions)
	}
	if err == nil && done == 0 {
		err = fmt.Errorf("session %d of shard %d: no room for an entry", k.Session, k.Shard)
	}
	return err
}

// AllObjects returns all objects.
func (m *Harness) AllObjects() (map[wire.Key]chain.Object, error) {
	objects := make(map[wire.Key]chain.Object)
	err := m.walk(objectArrays, func(k wire.Key, _ uint32, c *cell) (bool, error) {
		objects[k] = c.object()
		return true, nil
	})
	return objects, err
}

// Close ends the switch.
func (m *Harness) Close() error { return m.sw.Close() }
