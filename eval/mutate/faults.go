package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// fault makes helpers of the kernel fail: frames without room, networks without a way, tables without memory. Vectors
// cannot bring them about.
type fault struct {
	name    string
	results map[asm.BuiltinFunc]int32 // of helpers that fail
	growing bool                      // bpf_xdp_adjust_tail fails if the frame is to grow
	held    bool                      // all objects and sessions are locked by others
	some    bool                      // it meets some messages of a bundle, and others change the state
	values  map[string]any            // constants
	tags    wire.Tags                 // of the cluster: messages with them are longer
}

// Results of bpf_fib_lookup.
const (
	fibBlackhole   = 1
	fibNoNeighbour = 7
)

var noDetours = map[string]any{"nq_detours": uint8(0)}

func minus(e unix.Errno) int32 { return -int32(e) }

var faults = []fault{
	{name: "frames with room in front only", growing: true},
	{name: "tagged frames with room in front only", growing: true, tags: wire.TagsSent},
	{name: "frames without room", growing: true, results: map[asm.BuiltinFunc]int32{asm.FnXdpAdjustHead: minus(unix.EINVAL)}},
	{name: "frames of one length", results: map[asm.BuiltinFunc]int32{
		asm.FnXdpAdjustTail: minus(unix.EINVAL), asm.FnXdpAdjustHead: minus(unix.EINVAL),
	}},
	{name: "no way", results: map[asm.BuiltinFunc]int32{asm.FnFibLookup: fibBlackhole}},
	{name: "no neighbour", results: map[asm.BuiltinFunc]int32{asm.FnFibLookup: fibNoNeighbour}},
	{name: "messages for the agent", results: map[asm.BuiltinFunc]int32{asm.FnFibLookup: fibNoNeighbour}, values: noDetours},
	{name: "no room for messages for the agent", results: map[asm.BuiltinFunc]int32{
		asm.FnFibLookup: fibNoNeighbour, asm.FnRingbufReserve: 0,
	}, values: noDetours},
	{name: "no memory", results: map[asm.BuiltinFunc]int32{asm.FnMapUpdateElem: minus(unix.ENOMEM)}},
	{name: "entries of others", results: map[asm.BuiltinFunc]int32{asm.FnMapUpdateElem: minus(unix.EEXIST)}},
	{name: "frames that cannot be read", some: true, results: map[asm.BuiltinFunc]int32{
		asm.FnXdpLoadBytes: minus(unix.EFAULT),
	}},
	{name: "no program for bundles", results: map[asm.BuiltinFunc]int32{asm.FnTailCall: 0}},
	{name: "locks that others hold", held: true, some: true},
}

// fail returns a program whose helpers have a fault; nil: none.
func (m *marks) fail(f *fault, code asm.Instructions) (asm.Instructions, error) {
	if f == nil || !f.growing && len(f.results) == 0 {
		return code, nil
	}
	return m.rewrite(code, func(w *writer, flow *flow, i int, _ []registers) error {
		call := flow.code[i]
		result, fails := f.results[asm.BuiltinFunc(call.Constant)]
		grows := f.growing && call.Constant == int64(asm.FnXdpAdjustTail)
		switch {
		case !call.IsBuiltinCall() || !fails && !grows:
			w.put(call, flow.target[i], -1)
		case fails:
			w.put(asm.Mov.Imm(asm.R0, result).WithMetadata(call.Metadata), -1, -1)
		default:
			at := len(w.out)
			w.put(asm.JSGT.Imm32(asm.R2, 0, "").WithMetadata(call.Metadata).WithReference(""), -1, at+3)
			call.Metadata = asm.Metadata{}
			w.put(call, -1, -1)
			w.put(asm.Ja.Label(""), -1, at+4)
			w.put(asm.Mov.Imm(asm.R0, minus(unix.EINVAL)), -1, -1)
		}
		return nil
	})
}

// A node whose helpers fail does less than it should, and nothing else. What it sends, the reference sends too, or it is
// BUSY, or lacks a value. Each object and session is as before the packet, or as the reference's after it.

// faulty returns a test of a vector on a node with a fault.
func (s *XDP) faulty(f *fault, c conformance.Case) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		reference := conformance.NewReference()
		if err := errors.Join(reference.Reset(c.Options), reference.Load(c.State)); err != nil {
			return "", err
		}
		var target conformance.Target = s.node
		if f.tags != 0 {
			target = &conformance.Tagged{Keyed: s.node, Phase: f.tags}
		}
		for _, step := range c.Steps {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			what, err := faultyStep(s.node, target, reference, f, &c, step.Frame)
			if what != "" || err != nil {
				return what, err
			}
		}
		return "", nil
	}
}

// faultyStep gives a packet to the reference, and to a node that has been given the reference's state. It says what the
// node did that it may not. Through target the node has no tags.
func faultyStep(
	node *harness.XDP, target conformance.Target, reference *conformance.Reference,
	f *fault, c *conformance.Case, in []byte,
) (what string, err error) {
	before, err := reference.State()
	if err != nil {
		return "", err
	}
	load := c.State
	load.Objects, load.Sessions = before.Objects, before.Sessions
	if err := errors.Join(target.Reset(c.Options), target.Load(load)); err != nil {
		return "", err
	}
	if f.held {
		if err := node.Hold(true); err != nil {
			return "", err
		}
	}
	verdict, sent, err := target.Step(bytes.Clone(in))
	if errors.Is(err, conformance.ErrUnsupported) {
		_, _, err = reference.Step(bytes.Clone(in))
		return "", err
	}
	if err != nil {
		return err.Error(), nil
	}
	if f.held {
		if err := node.Hold(false); err != nil {
			return "", err
		}
	}
	_, want, err := reference.Step(bytes.Clone(in))
	if err != nil {
		return "", err
	}
	if what := excess(in, verdict, sent, want); what != "" {
		return what, nil
	}
	after, err := reference.State()
	if err != nil {
		return "", err
	}
	got, err := node.State()
	if err != nil {
		return "", err
	}
	if datagram, ok := frame.Content(in); f.some && ok && wire.IsBundle(datagram) {
		return "", nil
	}
	return changed(&before, &after, &got), nil
}

// linkBytes is how many bytes of a frame are link addresses.
const linkBytes = 12

// excess says what a node sent and may not.
func excess(in []byte, verdict conformance.Verdict, sent, want [][]byte) string {
	if verdict == conformance.Pass {
		// On a detour a message has other link addresses, and more may stand behind it.
		detour := slices.ContainsFunc(want, func(w []byte) bool {
			return len(sent[0]) >= len(w) && bytes.Equal(sent[0][linkBytes:len(w)], w[linkBytes:])
		})
		if !detour && !bytes.HasPrefix(sent[0], in) { // padding may follow
			return fmt.Sprintf("%x passed as %x", in, sent[0])
		}
		return ""
	}
next:
	for _, out := range sent {
		for _, w := range want {
			if bytes.Equal(w, out) {
				continue next
			}
		}
		datagram, _ := frame.Content(out)
		if wire.IsBundle(datagram) {
			continue
		}
		for _, m := range conformance.MessagesOf(datagram) {
			if m.Op == wire.OpReply && (m.Status() == wire.StatusBusy || m.Flags&wire.FlagNoValue != 0) {
				continue next
			}
		}
		return "sent in excess " + conformance.Describe(out) + fmt.Sprintf("\n%x", out)
	}
	return ""
}

// changed says which object or session is neither as before nor as it should be. Whether a read was counted does not
// matter, nor an object that was never written.
func changed(before, after, got *conformance.State) string {
	for key, is := range got.Objects {
		was, had := before.Objects[key]
		will, has := after.Objects[key]
		blank := is.Version == 0 && is.Committed == 0
		if !(had && sameObject(&is, &was)) && !(has && sameObject(&is, &will)) && !blank {
			return fmt.Sprintf("object %v: %+v, was %+v, should become %+v", key, is, was, will)
		}
	}
	for key := range before.Objects {
		if _, still := got.Objects[key]; !still {
			return fmt.Sprintf("object %v is gone", key)
		}
	}
	for key, is := range got.Sessions {
		if is != before.Sessions[key] && is != after.Sessions[key] {
			return fmt.Sprintf("session %v: %+v, was %+v, should become %+v", key, is, before.Sessions[key], after.Sessions[key])
		}
	}
	for key := range before.Sessions {
		if _, still := got.Sessions[key]; !still {
			return fmt.Sprintf("session %v is gone", key)
		}
	}
	return ""
}

func sameObject(a, b *chain.Object) bool {
	return a.Version == b.Version && a.Committed == b.Committed && a.Epoch == b.Epoch && a.Tombstone == b.Tombstone &&
		a.Writes == b.Writes && bytes.Equal(a.Value, b.Value)
}

// reloads reports whether a node can be given the state that a vector has made: that state is of objects and sessions only.
func reloads(c *conformance.Case) bool {
	reference, again := conformance.NewReference(), conformance.NewReference()
	if reference.Reset(c.Options) != nil || reference.Load(c.State) != nil {
		return false
	}
	for _, step := range c.Steps {
		state, err := reference.State()
		load := c.State
		load.Objects, load.Sessions = state.Objects, state.Sessions
		if err != nil || again.Reset(c.Options) != nil || again.Load(load) != nil {
			return false
		}
		v, want, err := reference.Step(bytes.Clone(step.Frame))
		v2, got, err2 := again.Step(bytes.Clone(step.Frame))
		if err != nil || err2 != nil || v != v2 || len(want) != len(got) {
			return false
		}
		for i := range want {
			if !bytes.Equal(want[i], got[i]) {
				return false
			}
		}
	}
	return true
}
