package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// RandomOptions say how two targets are compared on random packets.
type RandomOptions struct {
	Packets int
	Seed    uint64
	Round   int            // packets for one state; 0: the usual number
	Report  func(done int) // called now and then; may be nil
	// Within makes of the options of a round some that the target can have; nil: any.
	Within func(chain.Options) chain.Options
}

// Random packets come in rounds. Each round begins with new nodes in a new state, so that a difference has a short
// past.
const (
	packetsPerRound = 2000
	statesPerRound  = 4 // how often in a round the whole states are compared
	tracePackets    = 12
)

// Difference is where two targets parted.
type Difference struct {
	Seed   uint64 // of the comparison
	Packet int    // counted from the first one of the comparison
	What   string
	Trace  []string // the last packets, the guilty one at the end
}

// Write explains the difference to a person.
func (d *Difference) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "packet %d of seed %d: %s\nlast packets:\n", d.Packet, d.Seed, d.What); err != nil {
		return err
	}
	for _, line := range d.Trace {
		if _, err := fmt.Fprintln(w, " ", line); err != nil {
			return err
		}
	}
	return nil
}

// Compare gives the same random packets to the reference and to t and returns the first difference, nil if there is
// none. States and packets that t declines with [ErrUnsupported] are passed over.
func Compare(ctx context.Context, t Target, o RandomOptions) (*Difference, error) {
	reference := NewReference()
	for done := 0; done < o.Packets; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := newRound(o.Seed, done, o.Within)
		n := min(cmp.Or(o.Round, packetsPerRound), o.Packets-done)
		err := r.begin(reference)
		if err == nil {
			err = r.begin(t)
		}
		if err == nil {
			var d *Difference
			if d, err = r.compare(reference, t, n); d != nil {
				return d, nil
			}
		}
		if err != nil && !errors.Is(err, ErrUnsupported) {
			return nil, err
		}
		if done += n; o.Report != nil {
			o.Report(done)
		}
	}
	return nil, nil
}

func (r *round) begin(t Target) error {
	if err := t.Reset(r.options); err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	if err := t.Load(r.state); err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}

func (r *round) compare(reference, t Target, packets int) (*Difference, error) {
	var past [][]byte
	for i := range packets {
		in := r.next()
		if past = append(past, in); len(past) > tracePackets {
			past = past[1:]
		}
		what, err := r.step(reference, t, in)
		if err != nil {
			return nil, fmt.Errorf("packet %d of seed %d: %w", r.first+i, r.seed, err)
		}
		if near, ok := t.(NearbyTarget); ok && what == "" {
			if what, err = r.compareNearby(reference.(NearbyTarget), near, r.keys[i%len(r.keys)]); err != nil {
				return nil, fmt.Errorf("after packet %d of seed %d: %w", r.first+i, r.seed, err)
			}
		}
		if what == "" && ((i+1)%(packetsPerRound/statesPerRound) == 0 || i == packets-1) {
			if what, err = r.compareStates(reference, t); err != nil {
				return nil, err
			}
		}
		if what != "" {
			return &Difference{Seed: r.seed, Packet: r.first + i, What: what, Trace: describeAll(past)}, nil
		}
	}
	return nil, nil
}

// step says how the results of one packet differ, "" if they don't.
func (r *round) step(reference, t Target, in []byte) (string, error) {
	gotVerdict, got, err := t.Step(bytes.Clone(in))
	if errors.Is(err, ErrUnsupported) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%x", t.Name(), err, in)
	}
	wantVerdict, want, err := reference.Step(bytes.Clone(in))
	if err != nil {
		return "", err
	}
	what := differ(in, wantVerdict, gotVerdict, want, got)
	r.learn(want)
	return what, nil
}

// compareNearby says how reads of a key by processes of the machine differ, "" if they don't (R6).
func (r *round) compareNearby(reference, t NearbyTarget, key wire.Key) (string, error) {
	want, wantOK, err := reference.Nearby(key)
	if err != nil {
		return "", err
	}
	got, gotOK, err := t.Nearby(key)
	if err != nil {
		return "", err
	}
	if got == want && gotOK == wantOK {
		return "", nil
	}
	return fmt.Sprintf("a read of %v nearby: %+v, answered %v; want %+v, answered %v", key, got, gotOK, want, wantOK), nil
}

func describeAll(frames [][]byte) []string {
	var lines []string
	for _, f := range frames {
		lines = append(lines, Describe(f))
	}
	return lines
}

// differ says how two results of one packet differ, "" if they don't.
func differ(in []byte, wantVerdict, gotVerdict Verdict, want, got [][]byte) string {
	if wantVerdict != gotVerdict {
		return fmt.Sprintf("verdict %v, want %v", gotVerdict, wantVerdict)
	}
	want, got = comparable(in, want), comparable(in, got)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return "lacks " + Describe(want[i]) + fmt.Sprintf("\n%x", want[i])
		case i >= len(want):
			return "sent in excess " + Describe(got[i]) + fmt.Sprintf("\n%x", got[i])
		case !bytes.Equal(want[i], got[i]):
			return fmt.Sprintf("sent %s\n%x\nwant %s\n%x", describeSent(got[i]), got[i], describeSent(want[i]), want[i])
		}
	}
	return ""
}

// comparable sorts frames and clears the Ethernet addresses of those that are not sent back to their sender, because they
// depend on the routes. It also removes padding behind a bundle, which nodes may keep.
func comparable(in []byte, frames [][]byte) [][]byte {
	for i, f := range frames {
		if datagram, ok := frame.Content(f); ok && wire.IsBundle(datagram) {
			f = f[:frame.HeaderBytes+len(datagram)]
			frames[i] = f
		}
		if !straightBack(in, f) {
			clear(f[:min(len(f), offEtherType)])
		}
	}
	sort.Slice(frames, func(i, j int) bool { return bytes.Compare(frames[i], frames[j]) < 0 })
	return frames
}

// straightBack reports whether out, sent because of in, is the answer to the client that sent in, or in itself.
func straightBack(in, out []byte) bool {
	var received, sent frame.Packet
	var m wire.Message
	if _, ours := frame.Judge(in, Me, &received); !ours {
		return true
	}
	if wire.IsHeartbeat(received.Message) {
		return true
	}
	if sent, _ = frame.ReadSent(out); sent.To != received.From {
		return false
	}
	for _, m := range MessagesOf(sent.Message) {
		if m.Op != wire.OpReply {
			return false
		}
	}
	if isSoundBundle(received.Message) {
		return true
	}
	return !wire.Peek(received.Message, &m) || !m.Op.IsChain()
}

// offEtherType is where a frame's Ethernet addresses end.
const offEtherType = 12

func describeSent(b []byte) string {
	p, err := frame.ReadSent(b)
	if err != nil {
		return err.Error()
	}
	return "to " + hostName(p.To) + " " + describeDatagram(p.Message)
}

// compareStates says how the states differ, "" if they don't.
func (r *round) compareStates(reference, t Target) (string, error) {
	want, err := reference.State()
	if err != nil {
		return "", err
	}
	got, err := t.State()
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.Name(), err)
	}
	c := newCase("")
	c.Options = r.options
	counts, rest := c.changes(want, got)
	if len(counts)+len(rest) == 0 {
		counts, rest = c.changes(got, want) // counts that only the reference has
	}
	if len(counts)+len(rest) == 0 {
		return "", nil
	}
	what := "the state differs from the reference's: "
	for _, s := range append(counts, rest...) {
		what += "\n  " + s
	}
	return what, nil
}
