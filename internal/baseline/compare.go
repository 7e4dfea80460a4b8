package baseline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Case is a written case: a state, and what comes of packets.
type Case[S any] struct {
	Name  string
	State S
	Steps []Step[S]
}

// Step is one packet with what has to come of it.
type Step[S any] struct {
	In   Packet
	Sent []Packet
	Then S
}

// same is how packets and states are compared: what is empty is the same as what is not there.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})}

// difference explains how two values differ; it is empty if they don't. Explaining is slow, so the usual case is tried first.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, same)
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
	sent, err := t.Step(want.In)
	if err != nil {
		return err
	}
	if diff := difference(want.Sent, sent); diff != "" {
		return fmt.Errorf("%v -> %v, %x: sends other packets (- expected, + sent):\n%s", want.In.From, want.In.To, want.In.Payload, diff)
	}
	state, err := t.State()
	if err != nil {
		return err
	}
	if diff := difference(want.Then, state); diff != "" {
		return fmt.Errorf("%v -> %v, %x: leaves another state (- expected, + found):\n%s", want.In.From, want.In.To, want.In.Payload, diff)
	}
	return nil
}

// Draw makes states and packets of a protocol at random: mostly such that something happens.
type Draw[S any] struct {
	State  func(*rand.Rand) S
	Packet func(*rand.Rand, *S) Packet // for a node with about this state
}

// Compare gives random packets to a reference and to a target, so many to each of so many states, and returns the first
// difference. Every state has a seed, counted from first, which the error names and which alone repeats it.
func Compare[S any](ctx context.Context, reference, target Target[S], draw Draw[S], first uint64, states, packets int) error {
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
		if err := check(target, step); err != nil {
			return fmt.Errorf("packet %d, %s: %w", i+1, target.Name(), err)
		}
		state = step.Then
	}
	return nil
}
