package conformance

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Defaults of a message in a vector.
const (
	defaultEpoch   = 7
	defaultRequest = 1
)

// addStep reads a line "in SENDER OP field=... [with change ...]", where OP may be a bundle.
func (c *Case) addStep(line string, w *words) {
	var changes *words
	for i, p := range w.pairs {
		if p.name == "with" && p.value == "" {
			changes = &words{pairs: append([]pair(nil), w.pairs[i+1:]...)}
			w.pairs = w.pairs[:i]
			break
		}
	}
	from, err := parseHost(w.next())
	if err != nil {
		w.fail(err)
	}
	p := frame.Packet{SourceMAC: MACOf(from.Addr()), DestMAC: MACOf(Me.Addr()), From: from, To: Me}
	heartbeat := false
	bundle := len(w.pairs) > 0 && w.pairs[0].name == bundleWord
	if bundle {
		w.next()
		p.Message = c.bundle(w)
	} else if len(w.pairs) > 0 && w.pairs[0].name == heartbeatWord {
		w.next()
		heartbeat = true
		p.Message = c.heartbeat(w)
	} else {
		p.Message = c.message(w).Append(nil)
	}
	step := Step{Line: line, Plain: true}
	if changes == nil {
		step.Frame = frame.Append(nil, &p)
	} else {
		if bundle || heartbeat {
			p.Message = changes.bytes(p.Message)
		} else {
			p.Message = changes.message(p.Message)
		}
		step.Plain = len(changes.pairs) == 0
		step.Frame = changes.frame(p)
		if err := changes.done(); err != nil {
			w.fail(err)
		}
	}
	c.Steps = append(c.Steps, step)
}

func (c *Case) message(w *words) *wire.Message {
	m := &wire.Message{Op: parseOp(w, w.next())}
	if name, ok := w.take("key"); ok {
		m.Key = c.key(w, name)
	}
	m.Shard = uint16(w.number("shard", 16, uint64(m.Key.Shard(c.Options.Shards))))
	m.Epoch = uint32(w.number("epoch", 32, defaultEpoch))
	m.Request = w.number("request", 64, defaultRequest)
	m.Hops = uint8(w.number("hops", 8, 0))
	m.Detail = uint16(w.number("detail", 16, 0))
	m.Session = w.number("session", 64, 0)
	m.Seq = w.number("seq", 64, 0)
	m.Operand = w.number("operand", 64, 0)
	m.Version = w.number("version", 64, 0)
	m.ClientOp = opNamed(w, "client-op")
	m.Value = w.value()
	if s, ok := w.take("client"); ok {
		client, err := parseHost(s)
		if err != nil {
			w.fail(err)
		}
		m.Client = client
	}
	if s, ok := w.take("flags"); ok {
		m.Flags = parseFlags(w, s)
	}
	return m
}

func parseFlags(w *words, s string) (flags wire.Flag) {
next:
	for name := range strings.SplitSeq(s, ",") {
		for _, f := range wire.Flags {
			if f.String() == name {
				flags |= f
				continue next
			}
		}
		n, err := strconv.ParseUint(name, 0, 8)
		if err != nil {
			w.fail(fmt.Errorf("flags: %w", err))
		}
		flags |= wire.Flag(n)
	}
	return flags
}

// bytes applies the changes below the fields of a message or bundle: byteN=X sets one byte, cut and grow change the
// length.
func (w *words) bytes(b []byte) []byte {
	for i := range b {
		b[i] = byte(w.number("byte"+strconv.Itoa(i), 8, uint64(b[i])))
	}
	b = b[:len(b)-int(min(w.number("cut", 16, 0), uint64(len(b))))]
	return append(b, make([]byte, w.number("grow", 16, 0))...)
}

// message does so with a message, whose checksum is then made right again unless the change is "bad-checksum".
func (w *words) message(b []byte) []byte {
	b = w.bytes(b)
	bad := w.flag("bad-checksum")
	if len(b) < wire.BaseBytes {
		return b
	}
	wire.Seal(b)
	if bad {
		b[len(b)-1] ^= 1
	}
	return b
}

// Where the headers of a frame stand.
const (
	offIP  = frame.EthernetBytes
	offUDP = offIP + frame.IPv4Bytes
)

// frame builds a frame and applies the changes to its headers. The IPv4 checksum is made right again unless the change
// is "bad-ip-checksum".
func (w *words) frame(p frame.Packet) []byte {
	if name, ok := w.take("to"); ok {
		to, err := parseHost(name)
		if err != nil {
			w.fail(err)
		}
		p.To = to
	}
	f := frame.Append(nil, &p)
	put16 := func(at int, v uint64) { binary.BigEndian.PutUint16(f[at:], uint16(v)) }
	get16 := func(at int) int { return int(binary.BigEndian.Uint16(f[at:])) }
	put16(12, w.number("ether-type", 16, uint64(get16(12))))
	f[offIP] = f[offIP]&0xf0 | byte(w.number("ihl", 4, uint64(f[offIP]&0x0f)))
	f[offIP+1] = byte(w.number("tos", 8, uint64(f[offIP+1])))
	put16(offIP+2, uint64(get16(offIP+2)+w.change("total-length")))
	put16(offIP+6, w.number("fragment", 16, uint64(get16(offIP+6))))
	f[offIP+8] = byte(w.number("ttl", 8, uint64(f[offIP+8])))
	f[offIP+9] = byte(w.number("protocol", 8, uint64(f[offIP+9])))
	put16(offUDP+2, w.number("port", 16, uint64(get16(offUDP+2))))
	put16(offUDP+4, uint64(get16(offUDP+4)+w.change("udp-length")))
	put16(offUDP+6, w.number("udp-checksum", 16, 0))
	frame.SetIPChecksum(f)
	if w.flag("bad-ip-checksum") {
		f[offIP+10] ^= 1
	}
	if w.flag("vlan") {
		f = append(f[:12:12], append([]byte{0x81, 0, 0, 1}, f[12:]...)...)
	}
	f = append(f, make([]byte, w.number("padding", 16, 0))...)
	return f[:len(f)-int(w.number("frame-cut", 16, 0))]
}
