package conformance

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

type objects = map[wire.Key]chain.Object

func (c *Case) addOptions(w *words) {
	o := &c.Options
	o.Shards = int(w.number("shards", 32, uint64(o.Shards)))
	o.CellBytes = int(w.number("cell", 32, uint64(o.CellBytes)))
	o.MaxObjects = int(w.number("objects", 32, uint64(o.MaxObjects)))
	o.MaxSessions = int(w.number("sessions", 32, uint64(o.MaxSessions)))
	o.ClientSessions = int(w.number("client-sessions", 32, 0))
	o.AnswerRate = int(w.number("answer-rate", 32, 0))
	o.Relay = w.flag("relay")
	if s, ok := w.take("without"); ok {
		rule, err := chain.ParseRule(s)
		if err != nil {
			w.fail(err)
		}
		o.Without = rule
	}
}

func (c *Case) addShard(w *words) {
	number, err := strconv.ParseUint(w.next(), 10, 16)
	if err != nil {
		w.fail(err)
		return
	}
	config := chain.ShardConfig{Epoch: uint32(w.number("epoch", 32, defaultEpoch)), State: chain.Active}
	switch {
	case w.flag("none"):
		config.State = chain.None
	case w.flag("frozen"):
		config.State = chain.Frozen
	}
	config.Learner = w.flag("learner")
	config.Floor, config.Bar = w.number("floor", 64, 0), w.number("bar", 64, 0)
	if list, ok := w.take("members"); ok {
		config.Members, config.Self = parseMembers(w, list)
	}
	lease := w.lease()
	if err := config.Validate(); err != nil {
		w.fail(err)
	}
	c.State.Shards[uint16(number)] = Shard{config, lease}
}

func parseMembers(w *words, list string) (members []netip.AddrPort, self int) {
	for i, name := range strings.Split(list, ",") {
		a, err := parseHost(name)
		if err != nil {
			w.fail(err)
		}
		if a == Me {
			self = i
		}
		members = append(members, a)
	}
	return members, self
}

// lease is none (the default), forever, or a time from now that may be negative.
func (w *words) lease() time.Duration {
	s, ok := w.take("lease")
	switch {
	case !ok || s == "none":
		return 0
	case s == "forever":
		return dataplane.Forever
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.fail(err)
	}
	return d
}

func (c *Case) addObject(w *words) {
	key := c.key(w, w.next())
	o := chain.Object{
		Version:   w.number("version", 64, 0),
		Tombstone: w.flag("tombstone"),
		Reads:     w.number("reads", 64, 0),
		Writes:    w.number("writes", 64, 0),
		Value:     w.value(),
	}
	o.Committed = w.number("committed", 64, o.Version)
	o.Epoch = uint32(w.number("epoch", 32, 0))
	c.State.Objects[key] = o
}

func (c *Case) key(w *words, s string) wire.Key {
	key, err := c.keys.parse(s)
	if err != nil {
		w.fail(err)
	}
	return key
}

func (w *words) value() []byte {
	s, ok := w.take("value")
	if !ok {
		return nil
	}
	v, err := parseValue(s)
	if err != nil {
		w.fail(fmt.Errorf("value %s: %w", s, err))
	}
	return v
}

func (c *Case) addSession(w *words) {
	number, err := strconv.ParseUint(w.next(), 0, 64)
	if err != nil {
		w.fail(err)
	}
	k := chain.SessionKey{Session: number, Shard: uint16(w.number("shard", 16, 0))}
	s := chain.Session{
		Seq: w.number("seq", 64, 0), Version: w.number("version", 64, 0), Result: w.number("result", 64, 0),
		Op: opNamed(w, "op"), Status: statusNamed(w, "status"),
	}
	if name, ok := w.take("key"); ok {
		s.KeyLo = c.key(w, name).Lo
	}
	c.State.Sessions[k] = s
}

// opNamed takes the pair that names an op, if there is one.
func opNamed(w *words, name string) wire.Op {
	s, ok := w.take(name)
	if !ok {
		return 0
	}
	return parseOp(w, s)
}

func parseOp(w *words, s string) wire.Op {
	for _, op := range wire.Ops {
		if op.String() == s {
			return op
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "op-"), 0, 8)
	if err != nil {
		w.fail(fmt.Errorf("%q is no op: want its name, or op-99", s))
	}
	return wire.Op(n)
}

func statusNamed(w *words, name string) wire.Status {
	s, ok := w.take(name)
	if !ok {
		return 0
	}
	for _, status := range wire.Statuss {
		if status.String() == s {
			return status
		}
	}
	w.fail(fmt.Errorf("%q is no status", s))
	return 0
}
