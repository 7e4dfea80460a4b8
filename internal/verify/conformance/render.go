package conformance

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// line builds a line of name=value pairs; zero values are left out.
type line struct{ strings.Builder }

func (l *line) word(s string) {
	if l.Len() > 0 {
		l.WriteByte(' ')
	}
	l.WriteString(s)
}

func (l *line) number(name string, n uint64) {
	if n != 0 {
		l.word(fmt.Sprintf("%s=%d", name, n))
	}
}

func (l *line) value(b []byte) {
	if len(b) != 0 {
		l.word("value=" + showValue(b))
	}
}

// sent shows a frame that the node sent in answer to the frame in. Every byte of it can be told from the text: a frame
// that says more than the text is an error.
func (c *Case) sent(in, b []byte) (string, error) {
	p, err := frame.ReadSent(b)
	if err != nil {
		return "", err
	}
	var received frame.Packet
	if _, ours := frame.Judge(in, Me, &received); !ours || p.From != Me {
		return "", fmt.Errorf("sent from %v", p.From)
	}
	var shown string
	if wire.IsHeartbeat(p.Message) {
		shown, err = showHeartbeat(p.Message)
	} else if isSoundBundle(received.Message) {
		shown, err = c.showBundle(received.Message, p.Message)
	} else {
		shown, err = c.showBytes(p.Message, new(wire.Message))
	}
	if err != nil {
		return "", err
	}
	if straightBack(in, b) && (p.DestMAC != received.SourceMAC || p.SourceMAC != received.DestMAC) {
		return "", fmt.Errorf("a reply straight back has Ethernet addresses %x to %x", p.SourceMAC, p.DestMAC)
	}
	return "to " + hostName(p.To) + " " + shown, nil
}

// showBytes shows an encoded message, which must have exactly the fields of the text.
func (c *Case) showBytes(b []byte, m *wire.Message) (string, error) {
	if len(b) > wire.MaxMessageBytes || !wire.Peek(b, m) || !bytes.Equal(m.Append(nil), b) {
		return "", fmt.Errorf("the message sent is not in its canonical form: %x", b)
	}
	return c.show(m), nil
}

// show writes a message as a line "in" reads it, and the status of a reply as a name.
func (c *Case) show(m *wire.Message) string {
	var l line
	l.word(opName(m.Op))
	if m.Op == wire.OpReply {
		l.word("status=" + m.Status().String())
	} else {
		l.number("detail", uint64(m.Detail))
	}
	if m.Flags != 0 {
		l.word("flags=" + flagNames(m.Flags))
	}
	l.number("hops", uint64(m.Hops))
	if m.Shard != m.Key.Shard(c.Options.Shards) {
		l.word(fmt.Sprintf("shard=%d", m.Shard))
	}
	if m.Epoch != defaultEpoch {
		l.word(fmt.Sprintf("epoch=%d", m.Epoch))
	}
	if m.Request != defaultRequest {
		l.word(fmt.Sprintf("request=%d", m.Request))
	}
	l.word("key=" + c.keys.name(m.Key))
	l.number("version", m.Version)
	l.number("session", m.Session)
	l.number("seq", m.Seq)
	l.number("operand", m.Operand)
	if m.Client.IsValid() {
		l.word("client=" + hostName(m.Client))
	}
	if m.ClientOp != 0 {
		l.word("client-op=" + opName(m.ClientOp))
	}
	l.value(m.Value)
	return l.String()
}

func opName(op wire.Op) string {
	return strings.ReplaceAll(op.String(), " ", "-")
}

func flagNames(flags wire.Flag) string {
	var names []string
	for _, f := range wire.Flags {
		if flags&f != 0 {
			names = append(names, f.String())
			flags &^= f
		}
	}
	if flags != 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(flags)))
	}
	return strings.Join(names, ",")
}

func (c *Case) showObject(k wire.Key, o *chain.Object) string {
	var l line
	l.word("object " + c.keys.name(k))
	l.word(fmt.Sprintf("version=%d committed=%d", o.Version, o.Committed))
	l.number("epoch", uint64(o.Epoch))
	if o.Tombstone {
		l.word("tombstone")
	}
	l.value(o.Value)
	l.number("reads", o.Reads)
	l.number("writes", o.Writes)
	return l.String()
}

func (c *Case) showSession(k chain.SessionKey, s chain.Session) string {
	var l line
	l.word(fmt.Sprintf("session %d", k.Session))
	l.number("shard", uint64(k.Shard))
	l.number("seq", s.Seq)
	l.number("version", s.Version)
	switch {
	case s.Op == wire.OpAdd:
		l.number("result", s.Result)
	case s.Result != 0:
		l.word(fmt.Sprintf("result=%#016x", s.Result))
	}
	if s.Op != 0 {
		l.word("key=" + c.keys.nameOfLow(s.KeyLo) + " op=" + opName(s.Op) + " status=" + s.Status.String())
	}
	return l.String()
}

// changes lists the differences between two states: counts first, then objects and sessions as they are afterwards.
func (c *Case) changes(before, after State) (counts, rest []string) {
	for counter, n := range after.Counters {
		if n -= before.Counters[counter]; n != 0 {
			counts = append(counts, showCount(counter, n))
		}
	}
	for k, o := range after.Objects {
		if had, ok := before.Objects[k]; !ok || !sameObject(&had, &o) {
			rest = append(rest, c.showObject(k, &o))
		}
	}
	for k := range before.Objects {
		if _, ok := after.Objects[k]; !ok {
			rest = append(rest, "object "+c.keys.name(k)+" is gone")
		}
	}
	for k, s := range after.Sessions {
		if had, ok := before.Sessions[k]; !ok || had != s {
			rest = append(rest, c.showSession(k, s))
		}
	}
	for k := range before.Sessions {
		if _, ok := after.Sessions[k]; !ok {
			rest = append(rest, fmt.Sprintf("session %d is gone", k.Session))
		}
	}
	sort.Strings(counts)
	sort.Strings(rest)
	return counts, rest
}

func showCount(c chain.Counter, n uint64) string {
	s := "count"
	if c.Op != 0 {
		s += " " + opName(c.Op)
	}
	s += " " + c.Outcome.String()
	if n != 1 {
		s += fmt.Sprintf(" by %d", int64(n))
	}
	return s
}

func sameObject(a, b *chain.Object) bool {
	return a.Version == b.Version && a.Committed == b.Committed && a.Epoch == b.Epoch && a.Tombstone == b.Tombstone &&
		a.Reads == b.Reads && a.Writes == b.Writes && bytes.Equal(a.Value, b.Value)
}
