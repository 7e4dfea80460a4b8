package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// P4 is the P4 program as a [conformance.Target], on the software switch.
type P4 struct {
	*p4.Harness
	options chain.Options
	program []byte                    // nil: that of nodes
	dial    func() (p4.Switch, error) // of a switch that another process runs; nil: this process runs it
}

var _ conformance.Target = (*P4)(nil)

// NewP4 makes a target without a node.
func NewP4() *P4 { return new(P4) }

// NewP4On makes a target without a node on a switch that another process runs.
func NewP4On(dial func() (p4.Switch, error)) *P4 { return &P4{dial: dial} }

// SetProgram changes the program from the next Reset on; nil: that of nodes.
func (m *P4) SetProgram(program []byte) error {
	m.program = program
	return m.Close()
}

// P4Within restricts a node's options to those that a P4 node supports.
func P4Within(o chain.Options) chain.Options {
	o.CellBytes, o.NoDigest, o.Without = min(o.CellBytes, p4.CellBytes), true, 0
	o.EarlySessions, o.ClientSessions = true, 0
	return o
}

// Name implements [conformance.Target].
func (m *P4) Name() string { return "p4" }

// Reset implements [conformance.Target].
func (m *P4) Reset(o chain.Options) error {
	if err := p4.CheckOptions(o); err != nil {
		return fmt.Errorf("%w: %w", conformance.ErrUnsupported, err)
	}
	if m.Harness != nil && m.options == o {
		return m.Clear()
	}
	if err := m.Close(); err != nil {
		return err
	}
	var hosts []netip.Addr
	for host := conformance.Net.Addr().Next(); conformance.Net.Contains(host); host = host.Next() {
		hosts = append(hosts, host)
	}
	var err error
	m.Harness, err = m.start(o, hosts)
	m.options = o
	return err
}

func (m *P4) start(o chain.Options, hosts []netip.Addr) (*p4.Harness, error) {
	macOf := func(a netip.Addr) [6]byte { return conformance.MACOf(a) }
	if m.dial == nil {
		return p4.NewHarness(m.program, conformance.Me, o, hosts, macOf)
	}
	sw, err := m.dial()
	if err != nil {
		return nil, err
	}
	return p4.HarnessOn(sw, conformance.Me, o, hosts, macOf)
}

// p4Now is the time of a case. It is later than the end of every expired lease.
const p4Now = uint64(24 * time.Hour)

// Load implements [conformance.Target].
func (m *P4) Load(s conformance.State) error {
	configs := make(map[uint16]chain.ShardConfig, len(s.Shards))
	for number, shard := range s.Shards {
		configs[number] = shard.Config
	}
	if err := m.ConfigureAll(configs); errors.Is(err, p4.ErrFloor) {
		return fmt.Errorf("%w: %w", conformance.ErrUnsupported, err)
	} else if err != nil {
		return err
	}
	if err := m.SetClock(p4Now); err != nil {
		return err
	}
	for number, shard := range s.Shards {
		if err := m.GrantUntil(number, dataplane.LeaseUntil(p4Now, shard.Lease)); err != nil {
			return err
		}
	}
	if s.Heart != nil {
		if err := m.SetHeart(*s.Heart); err != nil {
			return err
		}
	}
	for k, o := range s.Objects {
		if len(o.Value) > m.options.CellBytes {
			return fmt.Errorf("%w: an object of %d bytes", conformance.ErrUnsupported, len(o.Value))
		}
		if err := m.PutObject(k, o); err != nil {
			return err
		}
	}
	for k, session := range s.Sessions {
		if err := m.PutSession(k, session); err != nil {
			return err
		}
	}
	return nil
}

// Step implements [conformance.Target].
func (m *P4) Step(b []byte) (conformance.Verdict, [][]byte, error) {
	var p frame.Packet
	if outcome, ours := frame.Judge(b, conformance.Me, &p); ours && outcome == wire.Accepted && wire.IsBundle(p.Message) {
		return 0, nil, fmt.Errorf("%w: bundles", conformance.ErrUnsupported)
	}
	if wire.Decode(p.Message, new(wire.Message)) == wire.OutcomeBadChecksum &&
		len(p.Message) > wire.BaseBytes+p4.CellBytes {
		return 0, nil, fmt.Errorf("%w: the checksum of a value that no cell has room for", conformance.ErrUnsupported)
	}
	sent, passed, err := m.Run(b)
	switch {
	case err != nil:
		return 0, nil, err
	case len(passed) > 0:
		return conformance.Pass, passed, nil
	case len(sent) > 0:
		for i, f := range sent { // Ethernet padding follows the message
			if whole := frame.EthernetBytes + int(binary.BigEndian.Uint16(f[frame.EthernetBytes+2:])); whole < len(f) {
				sent[i] = f[:whole]
			}
		}
		return conformance.Sent, sent, nil
	}
	return conformance.Drop, nil, nil
}

// State implements [conformance.Target].
func (m *P4) State() (s conformance.State, err error) {
	if s.Counters, err = m.Counters(); err != nil {
		return s, err
	}
	if s.Objects, err = m.AllObjects(); err != nil {
		return s, err
	}
	s.Sessions = make(map[chain.SessionKey]chain.Session)
	err = m.Sessions(func(k chain.SessionKey, session chain.Session) bool {
		s.Sessions[k] = session
		return true
	})
	return s, err
}

// Close implements [conformance.Target].
func (m *P4) Close() error {
	if m.Harness == nil {
		return nil
	}
	err := m.Harness.Close()
	m.Harness = nil
	return err
}
