package conformance

import (
	"bytes"
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
// trailer on the way in and loses it on the way out, so that each case holds as it stands.
type Tagged struct{ Keyed }

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
func (t Tagged) Reset(o chain.Options) error {
	o.Tags = true
	if err := t.Keyed.Reset(o); err != nil {
		return err
	}
	return t.SetKeys(TestKeys())
}

// Step implements [Target].
func (t Tagged) Step(b []byte) (Verdict, [][]byte, error) {
	if datagram, ok := frame.Content(b); ok && wire.IsBundle(datagram) {
		return 0, nil, fmt.Errorf("%w: bundles have no tags", ErrUnsupported)
	}
	if datagram, ok := frame.Content(b); ok && wire.IsHeartbeat(datagram) { // with a tag of its own
		return t.Keyed.Step(b)
	}
	tagged, err := change(b, TestKeys().Append)
	if err != nil {
		return 0, nil, err
	}
	verdict, sent, err := t.Keyed.Step(tagged)
	if err != nil || verdict == Drop {
		return verdict, sent, err
	}
	if verdict == Pass && bytes.Equal(sent[0], tagged) {
		return verdict, [][]byte{b}, nil
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
