package baseline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Case is a written test case: a state, and steps with their expected results.
type Case[S any] struct {
	Name  string
	State S
	Steps []Step[S]
}

// Step is one packet with its expected results.
type Step[S any] struct {
	In   Packet
	Sent []Packet
	Then S
}

// ErrUnsupported is wrapped by the errors with which a [Remote] target declines a packet.
var ErrUnsupported = errors.New("the target cannot do this")

// Remote is a target behind a network. Some packets can't reach it, it can't send all packets that
// a switch can, and the order of packets to different hosts is unknown.
type Remote interface {
	// Expect is called before each Step with the packet and the expected output.
	Expect(in Packet, sent []Packet) error
}

// Mismatch is a packet of which something else came than has to.
type Mismatch struct {
	Packet string
	Why    string // with the difference
}

// Error says both.
func (m *Mismatch) Error() string { return m.Packet + ": " + m.Why }

// same compares packets and states. Empty equals absent.
var same = gocmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})}

// difference explains how two values differ; it is empty if they don't. Explaining is slow, so the
// usual case is tried first.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return gocmp.Diff(want, got, same)
}

// Run holds a target to a case.
func Run[S any](t Target[S], c *Case[S]) error {
	if err := t.Load(c.State); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	for i, step := range c.Steps {
		if err := check(t, step); err != nil {
			return fmt.Errorf("%s, packet %d, %s: %w", c.Name, i+1, t.Name(), err)
		}
	}
	return nil
}

func check[S any](t Target[S], want Step[S]) error {
	remote, isRemote := t.(Remote)
	if isRemote {
		if err := remote.Expect(want.In, want.Sent); err != nil {
			return err
		}
	}
	sent, err := t.Step(want.In)
	if err != nil {
		return err
	}
	if isRemote {
		want.Sent, sent = sorted(want.Sent), sorted(sent)
	}
	if diff := difference(want.Sent, sent); diff != "" {
		return mismatch(want.In, "sends other packets (- expected, + sent):\n"+diff)
	}
	state, err := t.State()
	if err != nil {
		return err
	}
	if diff := difference(want.Then, state); diff != "" {
		return mismatch(want.In, "leaves another state (- expected, + found):\n"+diff)
	}
	return nil
}

func mismatch(in Packet, why string) error {
	return &Mismatch{fmt.Sprintf("%v -> %v, %x", in.From, in.To, in.Payload), why}
}

// sorted are packets in an order that does not depend on when they were sent.
func sorted(packets []Packet) []Packet {
	return slices.SortedFunc(slices.Values(packets), func(a, b Packet) int {
		return cmp.Or(a.To.Compare(b.To), a.From.Compare(b.From), bytes.Compare(a.Payload, b.Payload))
	})
}

// Draw makes states and packets of a protocol at random: mostly such that something happens.
type Draw[S any] struct {
	State  func(*rand.Rand) S
	Packet func(*rand.Rand, *S) Packet // for a node with about this state
}

// Compare gives random packets to a reference and to a target, so many to each of so many states,
// and returns the first difference. Every state has a seed, counted from first, which the error
// names and which alone repeats it. Packets that the target declines are passed over.
func Compare[S any](
	ctx context.Context,
	reference, target Target[S],
	draw Draw[S],
	first uint64,
	states, packets int,
) error {
	for seed := first; seed < first+uint64(states); seed++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := compareOne(reference, target, draw, rand.New(rand.NewPCG(seed, 1)), packets); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

// packetsPerState are few enough for a difference to have a short past.
const packetsPerState = 1000

// CompareMany is [Compare] with so many packets in all, of as many states as that takes. It tells
// report, unless that is nil, how many are done.
func CompareMany[S any](
	ctx context.Context,
	reference, target Target[S],
	draw Draw[S],
	first uint64,
	packets int,
	report func(done int),
) error {
	for done := 0; done < packets; first++ {
		n := min(packetsPerState, packets-done)
		if err := Compare(ctx, reference, target, draw, first, 1, n); err != nil {
			return err
		}
		if done += n; report != nil {
			report(done)
		}
	}
	return nil
}

func compareOne[S any](reference, target Target[S], draw Draw[S], rng *rand.Rand, packets int) error {
	state := draw.State(rng)
	for _, t := range []Target[S]{reference, target} {
		if err := t.Load(state); err != nil {
			return fmt.Errorf("%s: %w", t.Name(), err)
		}
	}
	for i := range packets {
		step := Step[S]{In: draw.Packet(rng, &state)}
		var err error
		if step.Sent, err = reference.Step(step.In); err != nil {
			return err
		}
		if step.Then, err = reference.State(); err != nil {
			return err
		}
		switch err := check(target, step); {
		case errors.Is(err, ErrUnsupported):
			if err := reference.Load(state); err != nil { // neither has had the packet
				return err
			}
		case err != nil:
			return fmt.Errorf("packet %d, %s: %w", i+1, target.Name(), err)
		default:
			state = step.Then
		}
	}
	return nil
}
