package sim

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Runner makes runs, any number at a time. It keeps nodes that many writes came before, which take
// long to make.
type Runner struct {
	mu   sync.Mutex
	warm map[warmKey]speaker
}

// warmKey identifies the state of nodes after a number of writes.
type warmKey struct {
	protocol            Protocol
	nodes, keys, before int
}

// NewRunner makes a runner.
func NewRunner() *Runner { return &Runner{warm: make(map[warmKey]speaker)} }

// speaker makes the nodes of a run, with every key at its initial value and the writes made that
// come before. The remarks of a traced one cost time.
func (r *Runner) speaker(c *Config, traced bool) (speaker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := warmKey{c.Protocol, c.Nodes, c.Keys, c.Before}
	if r.warm[key] == nil {
		made, done, err := r.nearest(c)
		if err == nil {
			err = before(made, done, c.Before)
		}
		if err != nil {
			return nil, err
		}
		r.warm[key] = made
	}
	return r.warm[key].clone(traced)
}

// nearest is a speaker with as many of the writes that come before as any had, and their number.
func (r *Runner) nearest(c *Config) (speaker, int, error) {
	var best speaker
	done := 0
	for key, one := range r.warm {
		if key == (warmKey{c.Protocol, c.Nodes, c.Keys, key.before}) && key.before > done && key.before < c.Before {
			best, done = one, key.before
		}
	}
	if best != nil {
		copied, err := best.clone(false)
		return copied, done, err
	}
	made, err := newSpeaker(c)
	return made, 0, err
}

func newSpeaker(c *Config) (speaker, error) {
	switch c.Protocol {
	case NetChain, NetChain32:
		return newNetChain(c)
	case NetCRAQPaper:
		return newNetCRAQPaper(c)
	case Ours:
		return newOurs(c)
	}
	return nil, fmt.Errorf("protocol %q cannot be simulated", c.Protocol)
}

// before makes the writes of the first key that come before a run: one after the other, on a network
// without faults, until each is answered. So many are done already.
func before(s speaker, done, writes int) error {
	for i := done; i < writes; i++ {
		r := &Record{Op: Op{Write: true}, Number: -1 - i, Value: initial}
		node, payload := s.ask(r, 1)
		client := netip.AddrPortFrom(clientAddr(0), firstClientPort)
		flying := []baseline.Packet{{From: client, To: nodeAddrPort(node, s.port()), Payload: payload}}
		answered := false
		for ; len(flying) > 0; flying = flying[1:] {
			p := flying[0]
			if to := endpointOf(p.To.Addr()); to >= firstClient {
				_, done := s.answer(r, p.Payload)
				answered = answered || done
				continue
			}
			sent, _ := s.receive(int(endpointOf(p.To.Addr())), 0, p)
			flying = append(flying, sent...)
		}
		if !answered {
			return fmt.Errorf("write %d of %d before the run was not answered, without any fault", i+1, writes)
		}
	}
	return nil
}
