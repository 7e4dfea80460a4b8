package sim

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Record is an operation with its result.
type Record struct {
	Op
	Number       int // among all operations of the run
	Last         bool
	Value        string // written, or read
	Call, Return time.Duration
	Known        bool // answered; else a write may take effect at any time, or never
	Attempts     int
	lines        int // of the trace, when it ended
}

// String is the operation on one line.
func (r *Record) String() string {
	name, who := keyName(r.Key), firstClient+Endpoint(r.Client)
	switch {
	case r.Write && r.Known:
		return fmt.Sprintf("%v: write %s = %q acknowledged", who, name, r.Value)
	case r.Write:
		return fmt.Sprintf("%v: write %s = %q not acknowledged", who, name, r.Value)
	case r.Known:
		return fmt.Sprintf("%v: read %s -> %q", who, name, r.Value)
	}
	return fmt.Sprintf("%v: read %s not answered", who, name)
}

func keyName(key int) string { return fmt.Sprintf("k%d", key) }

// initial is the value of every key at the beginning.
const initial = "initial"

// client makes its operations one after the other.
type client struct {
	w      *world
	number int
	todo   []Op
	made   int
	last   bool
	op     *Record // under way
}

// next begins the next operation after its pause, or ends.
func (c *client) next() {
	if len(c.todo) == 0 {
		c.w.busy--
		return
	}
	op := c.todo[0]
	c.todo = c.todo[1:]
	c.w.after(op.Think, func() { c.begin(op) })
}

func (c *client) begin(op Op) {
	w := c.w
	c.made++
	r := &Record{Op: op, Number: len(w.records), Last: c.last, Call: w.now}
	ask := "read " + keyName(op.Key)
	if op.Write {
		r.Value = fmt.Sprintf("c%d-%d", c.number+1, c.made)
		ask = fmt.Sprintf("write %s = %q", keyName(op.Key), r.Value)
	}
	w.records = append(w.records, r)
	c.op = r
	if w.waiting[c.endpoint()] == nil {
		w.waiting[c.endpoint()] = make(map[uint16]*client)
	}
	w.waiting[c.endpoint()][c.port()] = c
	w.noteAt(c.endpoint(), "%s", ask)
	c.attempt()
}

func (c *client) endpoint() Endpoint { return firstClient + Endpoint(c.number) }

func (c *client) port() uint16 { return firstClientPort + uint16(c.op.Number) }

// attempt asks, or gives up.
func (c *client) attempt() {
	r := c.op
	if r.Attempts == attempts || c.last && r.Attempts == lastAttempts {
		c.finish()
		return
	}
	r.Attempts++
	if r.Attempts > 1 {
		c.w.noteAt(c.endpoint(), "no answer for %v, once more", retryAfter)
	}
	node, payload := c.w.speaker.ask(r, r.Attempts)
	attempt := r.Attempts
	c.w.after(retryAfter, func() {
		if c.op == r && r.Attempts == attempt {
			c.attempt()
		}
	})
	c.w.net.send(c.endpoint(), r.ID, baseline.Packet{
		From: netip.AddrPortFrom(clientAddr(c.number),
			c.port()), To: nodeAddrPort(node, c.w.speaker.port()), Payload: payload,
	})
}

func (c *client) receive(payload []byte) {
	value, done := c.w.speaker.answer(c.op, payload)
	if !done {
		return
	}
	c.op.Known = true
	if !c.op.Write {
		c.op.Value = value
	}
	c.finish()
}

func (c *client) finish() {
	c.op.Return = c.w.now
	c.w.noteAt(c.endpoint(), "%s", outcomeOf(c.op))
	c.op.lines = len(c.w.trace)
	delete(c.w.waiting[c.endpoint()], c.port())
	c.op = nil
	c.next()
}

func outcomeOf(r *Record) string {
	switch {
	case !r.Known:
		return fmt.Sprintf("gives up after %d attempts", r.Attempts)
	case r.Write:
		return fmt.Sprintf("%s = %q is acknowledged", keyName(r.Key), r.Value)
	}
	return fmt.Sprintf("has read %s = %q", keyName(r.Key), r.Value)
}
