package conformance

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Keyed is a target that can be given keys.
type Keyed interface {
	Target
	SetKeys(k *wire.Keyring) error
}

// Tagged is a node of a cluster with tags (T1), as seen by a party with all keys: every message gets its
// trailer on the way in and loses it on the way out, so that each case holds as it stands. In the phases in which messages
// without a tag are taken too (T6), every other one comes without.
type Tagged struct {
	Keyed
	Phase wire.Tags // zero: they are required
	steps int
}

// TestKeys are the keys of Tagged nodes: two generations, and the older one is in force.
func TestKeys() *wire.Keyring {
	secret := func(b byte) *wire.Secret {
		s := wire.Secret(bytes.Repeat([]byte{b, ^b}, len(wire.Secret{})/2))
		return &s
	}
	return &wire.Keyring{Sign: 6, Keys: []wire.Keys{
		{Generation: 6, Read: secret(1), Write: secret(2), Chain: secret(3)},
		{Generation: 7, Read: secret(4), Write: secret(5), Chain: secret(6)},
	}}
}

// Reset implements [Target].
func (t *Tagged) Reset(o chain.Options) error {
	o.Tags = cmp.Or(t.Phase, wire.TagsRequired)
	if err := t.Keyed.Reset(o); err != nil {
		return err
	}
	return t.SetKeys(TestKeys())
}

// Step implements [Target].
func (t *Tagged) Step(b []byte) (Verdict, [][]byte, error) {
	phase := cmp.Or(t.Phase, wire.TagsRequired)
	switch datagram, ok := frame.Content(b); {
	case ok && wire.IsBundle(datagram) && phase.Sends():
		return 0, nil, fmt.Errorf("%w: bundles have no tags", ErrUnsupported)
	case ok && wire.IsHeartbeat(datagram): // with a tag of its own
		return t.Keyed.Step(b)
	case ok && wire.Tagged(datagram):
		return 0, nil, fmt.Errorf("%w: the mark is no version where there are tags", ErrUnsupported)
	}
	if t.steps++; phase != wire.TagsRequired && t.steps%2 == 0 {
		return t.step(b, b, phase)
	}
	if datagram, ok := frame.Content(b); ok && wire.IsBundle(datagram) {
		return t.step(b, b, phase)
	}
	tagged, err := change(b, TestKeys().Append)
	if err != nil {
		return 0, nil, err
	}
	return t.step(b, tagged, phase)
}

// step passes a frame to the node in the form given, and takes the tags from what it sends.
func (t *Tagged) step(b, given []byte, phase wire.Tags) (Verdict, [][]byte, error) {
	verdict, sent, err := t.Keyed.Step(given)
	if err != nil || verdict == Drop {
		return verdict, sent, err
	}
	if verdict == Pass && bytes.Equal(sent[0], given) {
		return verdict, [][]byte{b}, nil
	}
	if !phase.Sends() {
		return verdict, sent, nil
	}
	for i := range sent {
		sent[i], err = change(sent[i], func(datagram []byte, e wire.Ends) ([]byte, error) {
			message, ok := TestKeys().Open(datagram, e)
			if !ok {
				return nil, fmt.Errorf("%x has no tag or a wrong one", datagram)
			}
			return message, nil
		})
		if err != nil {
			return verdict, sent, err
		}
	}
	return verdict, sent, nil
}

// change puts another datagram into a UDP packet whose lengths agree; other frames stay as they are.
func change(b []byte, f func([]byte, wire.Ends) ([]byte, error)) ([]byte, error) {
	p, ok := frame.Datagram(b)
	if !ok || len(p.Message) < wire.BaseBytes {
		return b, nil
	}
	next, err := f(bytes.Clone(p.Message), wire.Ends{From: p.From, To: p.To})
	if err != nil {
		return nil, err
	}
	return frame.Replace(b, next), nil
}
