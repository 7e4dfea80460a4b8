package p4

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Stepper is a switch whose control plane may have no registers. The program then reads and changes its own, a step for
// each frame that comes in by the CPU port: see p4/steps.p4.
type Stepper interface {
	// Steps says whether registers are out of reach of [Switch].Do. Tables and counters are not.
	Steps() bool
	// Ask hands in frames by the CPU port, and returns the program's answers in their order. A frame may come twice.
	Ask(frames [][]byte) ([][]byte, error)
}

// What a step does: see p4/steps.p4.
const (
	stepRead = iota + 1
	stepMerge
	stepClear
	stepLease
	stepNode
	stepFull
	stepMade
	stepFind
	stepRecord
	stepFree
)

// offCellEpoch is where the epoch of an object is in a step's message: in the lower half of client_lo.
const offCellEpoch = offChainClientLo + 4

// step is a message to the program, or its answer.
type step []byte

func (s step) put(at int, v uint64)   { binary.BigEndian.PutUint64(s[at:], v) }
func (s step) put32(at int, v uint32) { binary.BigEndian.PutUint32(s[at:], v) }
func (s step) put16(at int, v uint16) { binary.BigEndian.PutUint16(s[at:], v) }
func (s step) get(at int) uint64      { return binary.BigEndian.Uint64(s[at:]) }
func (s step) get32(at int) uint32    { return binary.BigEndian.Uint32(s[at:]) }
func (s step) get16(at int) uint16    { return binary.BigEndian.Uint16(s[at:]) }
func (s step) has() bool              { return s[offBaseHops] == 1 }
func (s step) value(bytes uint64) []byte {
	return s[wire.ChainBytes:][:min(int(bytes), len(s)-wire.ChainBytes)]
}

// asked is a step of a request.
type asked struct {
	step
	answer func(step) // nil: there is nothing to learn
}

func newStep(kind byte, value []byte) step {
	s := make(step, wire.ChainBytes, wire.ChainBytes+len(value))
	s.put16(offBaseMagic, wire.Magic)
	s[offBaseVersion], s[offBaseOp], s[offBaseFlags] = wire.WireVersion, byte(wire.OpUpdate), kind
	return append(s, value...)
}

func (r *Request) ask(s step, answer func(step)) { r.steps = append(r.steps, asked{s, answer}) }

// do makes changes and then reads: steps after changes of tables and counters.
func (n *Node) do(r *Request) error {
	if err := n.sw.Do(r); err != nil || len(r.steps) == 0 {
		return err
	}
	frames := make([][]byte, len(r.steps))
	for i, s := range r.steps {
		s.put(offBaseRequest, n.number.Add(1))
		frames[i] = frame.Append(nil, &frame.Packet{From: n.self, To: n.self, Message: s.step})
	}
	before := dataplane.BootTime()
	answers, err := n.stepper.Ask(frames)
	if err != nil {
		return err
	}
	if !n.stopped {
		n.compareClocks(before, binary.BigEndian.Uint64(answers[len(answers)-1]), dataplane.BootTime())
	}
	for i, s := range r.steps {
		if s.answer != nil {
			s.answer(step(answers[i][answerHeader:]))
		}
	}
	return nil
}

// answerHeader is in front of the message of a frame from the CPU port.
const answerHeader = PlatformBytes + frame.HeaderBytes

// AnswerTo is the number of the step that a frame from the CPU port answers; ok is false if it answers none.
func AnswerTo(f []byte) (number uint64, ok bool) {
	if len(f) < answerHeader+wire.ChainBytes || f[offReason] != cpuAnswer {
		return 0, false
	}
	return StepNumber(f[PlatformBytes:]), true
}

// Tried says whether a frame from the CPU port left because of a packet that was tried.
func Tried(f []byte) bool { return len(f) >= PlatformBytes && f[offNote] != 0 }

// LeftOf is the frame that left because of a packet that was tried, and how many copies of it leave.
func LeftOf(f []byte) (left Left, copies int) {
	left = Left{Port: int(f[offNote+1]), Frame: f}
	if left.Port != PortCPU {
		left.Frame = f[PlatformBytes:]
	}
	return left, int(f[offCopies])
}

// StepNumber is the number of the step that a frame to the CPU port has.
func StepNumber(f []byte) uint64 { return step(f[frame.HeaderBytes:]).get(offBaseRequest) }

// beginSteps checks that the program of a switch without registers answers, and reads its clock.
func (n *Node) beginSteps() error {
	s, ok := n.sw.(Stepper)
	if !ok || !s.Steps() {
		return nil
	}
	n.stepper = s
	n.made.known = make(map[chain.SessionKey]bool)
	var probe Request
	probe.ask(newStep(stepMade, nil), nil)
	if err := n.do(&probe); err != nil {
		return fmt.Errorf("%w: its server has no registers, and so its program has to answer packets that come in by "+
			"port %d (docs/p4.md): use a switch that implements one of both, as netcraq switch does", err, PortCPU)
	}
	return nil
}

// tick is the coarsest unit of a switch's clock: v1model counts microseconds.
const tick = uint64(time.Microsecond)

// compareClocks learns how far the clock of a switch is ahead that read now between two readings of this machine's. It
// takes the least that is possible, so that no lease ends later there than here.
func (n *Node) compareClocks(before, now, after uint64) {
	least, most := int64(now-after-tick), int64(now+tick-before)
	if ahead := n.ahead.Load(); ahead > most || ahead < least {
		n.ahead.Store(least)
	}
}

// onSwitch is the time of the switch's clock at the end of a lease; 0, no lease, if that was before the switch began.
func (n *Node) onSwitch(end uint64) uint64 {
	if end <= leaseOfNode || end == chain.Forever {
		return end
	}
	ahead := n.ahead.Load()
	if ahead < 0 && end+uint64(ahead) >= end || end+uint64(ahead) <= leaseOfNode {
		return 0
	}
	return end + uint64(ahead)
}

// readPlaces adds the reading of some places in a row to r.
func (n *Node) readPlaces(r *Request, first int, cells []cell) {
	for i := range cells {
		if place := first + i; place < len(n.used) && n.used[place] {
			s := newStep(stepRead, nil)
			s.put32(offBaseEpoch, uint32(place))
			r.ask(s, func(a step) {
				c := &cells[i]
				c.version, c.committed = a.get(offChainVersion), a.get(offChainOperand)
				c.bytes, c.epoch = uint64(a.get16(offBaseDetail)), uint64(a.get32(offCellEpoch))
				c.value = Split(a.value(c.bytes & lengthBits))
			})
		}
	}
}

// mergePlace takes over what is newer of an object.
func mergePlace(r *Request, place uint32, o *chain.Object) {
	s := newStep(stepMerge, o.Value)
	s.put32(offBaseEpoch, place)
	s.put32(offCellEpoch, o.Epoch)
	s.put(offChainVersion, o.Version)
	s.put(offChainOperand, o.Committed)
	if s[offChainClientOp] = byte(wire.OpPut); o.Tombstone {
		s[offChainClientOp] = byte(wire.OpDelete)
	}
	r.ask(s, nil)
}

// mergeAll is Import by steps.
func (n *Node) mergeAll(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	places, full, err := n.placesFor(objects)
	if err != nil {
		return err
	}
	var r Request
	for i, place := range places {
		mergePlace(&r, place, &objects[i].Object)
	}
	if err := n.do(&r); err != nil {
		return err
	}
	if full {
		return fmt.Errorf("objects: %w", dataplane.ErrFull)
	}
	done, err := n.record(sessions)
	if err == nil && done < len(sessions) {
		err = fmt.Errorf("sessions: %w", dataplane.ErrFull)
	}
	return err
}

// stepOf is a step of a session.
func stepOf(kind byte, k chain.SessionKey) step {
	s := newStep(kind, nil)
	s.put16(offBaseShard, k.Shard)
	s.put(offChainSession, k.Session)
	return s
}

// record stores sessions that are newer than what is there, and returns how many there was room for.
func (n *Node) record(sessions []dataplane.KeyedSession) (done int, err error) {
	var r Request
	for i := range sessions {
		k, is := sessions[i].Key, &sessions[i].Session
		s := stepOf(stepRecord, k)
		s.put(offChainSeq, is.Seq)
		s.put(offChainVersion, is.Version)
		s.put(offChainOperand, is.Result)
		s.put(offBaseKeyLo, is.KeyLo)
		s.put16(offBaseDetail, uint16(is.Status))
		s[offChainClientOp] = byte(is.Op)
		r.ask(s, func(a step) {
			if a.has() {
				done++
			}
		})
	}
	err = n.do(&r)
	return done, err
}

// find reads the entries of sessions, without those that have none. The caller holds the lock.
func (n *Node) find(keys []chain.SessionKey) ([]sessionEntry, error) {
	var found []sessionEntry
	var r Request
	for _, k := range keys {
		r.ask(stepOf(stepFind, k), func(a step) {
			if !a.has() {
				delete(n.made.known, k)
				return
			}
			found = append(found, sessionEntry{key: k, Session: chain.Session{
				Seq: a.get(offChainSeq), Version: a.get(offChainVersion), Result: a.get(offChainOperand),
				KeyLo: a.get(offBaseKeyLo), Op: wire.Op(a[offChainClientOp]), Status: wire.Status(a.get16(offBaseDetail)),
			}})
		})
	}
	err := n.do(&r)
	return found, err
}

// made are the sessions that have got an entry since the node began, and may still have it.
type made struct {
	number uint64 // of entries that the node knows of
	known  map[chain.SessionKey]bool
}

// learn asks for the sessions that got an entry since it was called last, and returns the number of entries. It is
// called before entries are freed, so that there are never more new ones than the switch remembers.
func (n *Node) learn() (used int, err error) {
	total := n.made.number + 1 // at least, as long as the switch has not said
	for asked := n.made.number; asked < total; {
		first := asked
		var r Request
		for ; asked < min(first+batch, total); asked++ {
			number, s := asked, newStep(stepMade, nil)
			s.put(offChainOperand, number)
			r.ask(s, func(a step) {
				if total, used = a.get(offChainVersion), int(a.get32(offBaseEpoch)); number < total {
					n.made.known[chain.SessionKey{Session: a.get(offChainSession), Shard: a.get16(offBaseShard)}] = true
					n.made.number = number + 1
				}
			})
		}
		if err := n.do(&r); err != nil {
			return 0, err
		}
		if total > asked+MaxSessions {
			return 0, fmt.Errorf("the switch's program says that %d sessions got an entry, of which %d are known: "+
				"it is not this node's", total, asked)
		}
	}
	return used, nil
}

// visitMade is visitEntries by steps.
func (n *Node) visitMade(of func(shard uint16) bool, visit func(*sessionEntry) (bool, error)) error {
	n.mu.Lock()
	_, err := n.learn()
	var keys []chain.SessionKey
	for k := range n.made.known {
		if of(k.Shard) {
			keys = append(keys, k)
		}
	}
	n.mu.Unlock()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(keys, batch) {
		n.mu.Lock()
		found, err := n.find(some)
		n.mu.Unlock()
		if err != nil {
			return err
		}
		for i := range found {
			if more, err := visit(&found[i]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// freeAll frees the entries of sessions that still holds for, unless a frame changes them first. The caller holds the
// lock.
func (n *Node) freeAll(keys []chain.SessionKey, still func(chain.SessionKey, *chain.Session) bool) error {
	if _, err := n.learn(); err != nil {
		return err
	}
	found, err := n.find(keys)
	if err != nil {
		return err
	}
	var r Request
	for i := range found {
		if l := &found[i]; still(l.key, &l.Session) {
			s := stepOf(stepFree, l.key)
			s.put(offChainSeq, l.Seq)
			r.ask(s, nil)
		}
	}
	return n.do(&r)
}
