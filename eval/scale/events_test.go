package scale

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
)

// A simulation of single packets: switches with one server and a queue each, links that take time,
// objects that are dirty because a write was here and its ACK was not. It knows nothing of expected
// values.

type packet struct {
	// 'r' read, 'R' read passed on to the tail, 'w' write, 'a' ACK, 'd' done: an answer on its way to the client
	op     byte
	key    int
	client int // leaf
	place  int // in the chain, of the next node
	to     int // switch; for answers, the client's leaf
}

type event struct {
	at   float64
	node int
	packet
	served bool // leaves the switch, rather than arrives
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, k int) bool { return e[i].at < e[k].at }
func (e events) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

type simulation struct {
	*model
	random  *rand.Rand
	queue   events
	free    []float64 // time at which each switch has finished its work so far
	busy    []float64 // how long it worked
	pending map[[2]int]int
	chainOf []*shard
	asked   int
	dirty   int
	visits  int
}

// simulate runs operations with random arrival times, and returns the work of each switch.
func simulate(m *model, perSecond float64, count int, seed uint64) (s *simulation, seconds float64) {
	nodes := m.fabric.Leaves + m.fabric.Spines
	s = &simulation{
		model:   m,
		random:  rand.New(rand.NewPCG(seed, 1)),
		free:    make([]float64, nodes),
		busy:    make([]float64, nodes),
		pending: make(map[[2]int]int),
	}
	places := hash(m.work.Seed)
	for range m.parts {
		s.chainOf = append(s.chainOf, &m.shards[places.IntN(len(m.shards))])
	}
	at := 0.0
	for range count {
		at += s.random.ExpFloat64() / perSecond
		key := draw(s.random, m.parts)
		p := packet{op: 'r', key: key, client: s.random.IntN(m.fabric.Leaves)}
		if s.random.Float64() < m.work.WriteShare {
			p.op = 'w'
		} else {
			p.place = draw(s.random, s.chainOf[key].reads)
		}
		p.to = s.chainOf[key].chain[p.place]
		heap.Push(&s.queue, event{at: at, node: p.client, packet: p})
	}
	last := at
	for len(s.queue) > 0 {
		s.step(heap.Pop(&s.queue).(event))
	}
	return s, last
}

func draw(random *rand.Rand, parts []float64) int {
	x := random.Float64()
	for i, part := range parts {
		if x -= part; x < 0 {
			return i
		}
	}
	return len(parts) - 1
}

func (s *simulation) step(e event) {
	if e.served {
		s.leave(e)
		return
	}
	rate := s.rates.Transit
	if e.to == e.node && e.op != 'd' {
		rate = s.take(&e)
	}
	s.visits++
	s.busy[e.node] += 1 / rate
	s.free[e.node] = max(s.free[e.node], e.at) + 1/rate
	heap.Push(&s.queue, event{s.free[e.node], e.node, e.packet, true})
}

// take is the work of a switch for a packet addressed to it.
func (s *simulation) take(e *event) float64 {
	chain := s.chainOf[e.key].chain
	at, tail := [2]int{e.key, e.node}, e.place == len(chain)-1
	switch e.op {
	case 'r', 'R':
		if e.op == 'r' {
			s.asked++
			if !tail && s.protocol != NetChain && s.pending[at] > 0 {
				s.dirty++
				e.op, e.place, e.to = 'R', len(chain)-1, chain[len(chain)-1]
				return s.rates.Forward
			}
		}
		e.op = 'd'
		return s.rates.Read
	case 'w':
		if !tail {
			s.pending[at]++
			e.place++
			e.to = chain[e.place]
			return s.rates.Write
		}
		e.op = 'd'
		if s.protocol == NetChain {
			return s.rates.Commit
		}
		for k, node := range chain[:len(chain)-1] {
			s.forward(e.at, e.node, packet{op: 'a', key: e.key, place: k, to: node})
		}
		return s.rates.Commit
	case 'a':
		s.pending[at]--
		if s.protocol == NetCRAQPaper {
			s.pending[at] = 0
		}
		e.to = -1
		return s.rates.Ack
	}
	panic("no such packet")
}

// leave sends a packet on to where it goes.
func (s *simulation) leave(e event) {
	if e.op == 'd' {
		e.to = e.client
	}
	if e.to >= 0 && e.to != e.node {
		s.forward(e.at, e.node, e.packet)
	}
}

// forward takes the next link on a path, one of those that are equal at random.
func (s *simulation) forward(at float64, node int, p packet) {
	next := p.to
	switch s.fabric.hops(node, p.to) {
	case 2:
		if node < s.fabric.Leaves {
			next = s.fabric.Leaves + s.random.IntN(s.fabric.Spines)
		} else {
			next = s.random.IntN(s.fabric.Leaves)
		}
	}
	heap.Push(&s.queue, event{at + s.rates.HopSeconds, next, p, false})
}

// Below saturation, the calculated work of each switch equals the simulated work.
func TestTheSimulationAgrees(t *testing.T) {
	const seed, operations = 11, 50_000
	rates := Rates{Transit: 5e6, Read: 4e6, Forward: 3e6, Write: 2e6, Commit: 1e6, Ack: 4.5e6, HopSeconds: 20e-6}
	for _, protocol := range []Protocol{NetChain, NetCRAQPaper, Ours} {
		for name, w := range map[string]Work{
			"reads":       {Zipf: 0.99},
			"writes":      {WriteShare: 1},
			"mixed":       {WriteShare: 0.3},
			"mixed, Zipf": {WriteShare: 0.3, Zipf: 0.99},
		} {
			w.Keys, w.Seed = 300, seed
			m, err := newModel(Fabric{Leaves: 4, Spines: 3, Shards: 64}, protocol, rates, w)
			if err != nil {
				t.Fatal(err)
			}
			m.populate(w.Seed)
			perSecond := m.level(m.spread()) / 3 // queues are short: dirty time is that of the links
			l, dirty := m.count(perSecond)
			s, seconds := simulate(m, perSecond, operations, seed)
			for node := range s.busy {
				want, got := perSecond*l.of(node), s.busy[node]/seconds
				if math.Abs(got-want) > 0.04*want+0.003 {
					t.Errorf("%s, %s, seed %d: %s is busy for %.4f of the time, calculated %.4f", protocol, name,
						seed, m.fabric.name(node), got, want)
				}
			}
			if got := float64(s.visits) / operations; math.Abs(got-l.packets) > 0.03*l.packets {
				t.Errorf("%s, %s: %.3f packets per operation, calculated %.3f", protocol, name, got, l.packets)
			}
			if got := float64(s.dirty) / max(1, float64(s.asked)); math.Abs(got-dirty) > 0.1*dirty+0.004 {
				t.Errorf("%s, %s: %.4f of the reads meet dirty objects, calculated %.4f", protocol, name, got, dirty)
			}
		}
	}
}
