package sim

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
)

// event is something that will happen. Events of one moment happen in the order in which they were planned.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// speaker is a protocol's side of a run: its nodes, and the messages of its clients.
type speaker interface {
	// port is that of the nodes.
	port() uint16
	// clone is the same with nodes of its own.
	clone(traced bool) (speaker, error)
	// receive gives a packet to a node; the remark is for people, if this is traced.
	receive(node int, now time.Duration, p baseline.Packet) (sent []baseline.Packet, remark string)
	// readers is how many nodes may answer a read.
	readers() int
	// ask returns the message of an attempt of an operation, and its node.
	ask(op *Record, attempt int) (node int, payload []byte)
	// answer reads an answer to the operation; not done means that it isn't one.
	answer(op *Record, payload []byte) (value string, done bool)
	// tick returns the packets that a node's agent sends periodically.
	tick(node int) []baseline.Packet
	// describe is a payload for people.
	describe(payload []byte) string
}

// world is everything that exists in a run.
type world struct {
	Config
	speaker speaker
	now     time.Duration
	queue   events
	order   int
	net     network
	clients map[int]*client
	waiting map[Endpoint]map[uint16]*client // by port of the operation under way
	records []*Record
	busy    int
	calm    bool
	traced  bool
	steps   int
	trace   []Line
}

// Result is the outcome of a run.
type Result struct {
	Records   []*Record
	Faults    []Fault // that happened
	Steps     int     // events
	Simulated time.Duration
	Trace     []Line
}

// tickEvery is how often the agents of this project's nodes look for objects that stay dirty.
const tickEvery = 20 * time.Millisecond

// longestRun ends a run whose clients never end, which is a bug of the simulation.
const longestRun = time.Hour

// Run simulates until all clients are done and a last one has looked at every key at every node.
func (r *Runner) Run(c Config) (*Result, error) { return r.run(c, false) }

// Trace is [Runner.Run] with a line for everything that happens.
func (r *Runner) Trace(c Config) (*Result, error) { return r.run(c, true) }

func (r *Runner) run(c Config, traced bool) (*Result, error) {
	speaker, err := r.speaker(&c, traced)
	if err != nil {
		return nil, err
	}
	w := &world{
		Config:  c,
		speaker: speaker,
		clients: make(map[int]*client),
		waiting: make(map[Endpoint]map[uint16]*client),
		traced:  traced,
	}
	w.net = newNetwork(w)
	for _, op := range c.Ops {
		w.client(op.Client).todo = append(w.client(op.Client).todo, op)
	}
	for number := range c.clients() {
		if one := w.clients[number]; one != nil {
			w.busy++
			one.next()
		}
	}
	for node := range c.Nodes {
		w.tick(node)
	}
	w.until(func() bool { return w.busy == 0 })
	w.calm = true
	w.note("faults end; what is under way arrives")
	w.until(func() bool { return w.net.flying == 0 })
	settled := w.now + settleFor
	w.until(func() bool { return w.now >= settled })
	w.inspect()
	w.until(func() bool { return w.busy == 0 })
	if w.busy > 0 {
		return nil, fmt.Errorf("seed %d: clients are not done after %v: the simulation is wrong", c.Seed, longestRun)
	}
	return &Result{w.records, w.net.acted, w.steps, w.now, w.trace}, nil
}

// clients is one more than the highest number of a client.
func (c *Config) clients() int {
	most := 0
	for _, op := range c.Ops {
		most = max(most, op.Client+1)
	}
	return most
}

func (w *world) client(number int) *client {
	if w.clients[number] == nil {
		w.clients[number] = &client{w: w, number: number}
	}
	return w.clients[number]
}

// inspect starts the last client: it reads each key at every node, writes it, and reads it again.
func (w *world) inspect() {
	w.note("a last client looks at every key")
	last := &client{w: w, number: w.Config.clients()}
	for key := range w.Keys {
		for _, write := range []bool{false, true, false} {
			for node := range w.speaker.readers() {
				last.todo = append(last.todo, Op{Client: last.number, Key: key, Write: write, Node: node})
				if write {
					break
				}
			}
		}
	}
	w.busy++
	last.last = true
	last.next()
}

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + d, w.order, do})
}

func (w *world) until(done func() bool) {
	for !done() && w.now < longestRun && len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.steps++
		e.do()
	}
}

// tick lets a node's agent work, now and ever after.
func (w *world) tick(node int) {
	w.send(node, 0, w.speaker.tick(node))
	w.after(tickEvery, func() { w.tick(node) })
}

// send lets packets leave a node because of an operation.
func (w *world) send(node, op int, packets []baseline.Packet) {
	for _, p := range packets {
		w.net.send(Endpoint(node), op, p)
	}
}

// receive is the arrival of a packet.
func (w *world) receive(link Link, op int, p baseline.Packet) {
	if link.To >= firstClient {
		if c := w.waiting[link.To][p.To.Port()]; c != nil {
			c.receive(p.Payload)
		}
		return
	}
	sent, remark := w.speaker.receive(int(link.To), w.now, p)
	w.noteAt(link.To, "%s", remark)
	w.send(int(link.To), op, sent)
}
