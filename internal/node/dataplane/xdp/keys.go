package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// nqKeySet mirrors struct nq_key_set; the words of a key are numbers of the CPU's.
type nqKeySet struct {
	Generation uint32
	Valid      uint32
	Keys       [3][2]uint64 // read, write, chain
}

// nqKeyring mirrors struct nq_keyring.
type nqKeyring struct {
	Sign     uint32
	Reserved uint32
	Sets     [wire.KeyGenerations]nqKeySet
}

// SetKeys implements [dataplane.Plane].
func (p *Plane) SetKeys(k *wire.Keyring) error {
	if err := p.objects.setKeys(k); err != nil {
		return err
	}
	p.outlet.keys.Store(k)
	return nil
}

func (o *objects) setKeys(k *wire.Keyring) error {
	ring, err := keyringOf(k)
	if err != nil {
		return err
	}
	if err := o.Keys.Put(uint32(0), ring); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// keyringOf puts each generation where the program looks for it: at its low bits.
func keyringOf(k *wire.Keyring) (nqKeyring, error) {
	ring := nqKeyring{Sign: k.Sign}
	signs := false
	for _, keys := range k.Keys {
		if keys.Read == nil || keys.Write == nil || keys.Chain == nil {
			return ring, errors.New("keys: a node needs all three of a generation")
		}
		set := &ring.Sets[keys.Generation%wire.KeyGenerations]
		if set.Valid != 0 {
			return ring, fmt.Errorf("keys: generations %d and %d do not go together: at most %d that follow each other do",
				set.Generation, keys.Generation, wire.KeyGenerations)
		}
		*set = nqKeySet{Generation: keys.Generation, Valid: 1}
		for i, secret := range []*wire.Secret{keys.Read, keys.Write, keys.Chain} {
			set.Keys[i] = [2]uint64{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
		}
		signs = signs || keys.Generation == k.Sign
	}
	if !signs {
		return ring, fmt.Errorf("keys: generation %d, to tag with, is not among them", k.Sign)
	}
	return ring, nil
}

// openOutlet begins with the keys that a predecessor left in the pinned table.
func (p *Plane) openOutlet(tags wire.Tags) error {
	p.outlet = &outlet{socket: p.socket, node: p.node}
	p.outlet.tags.Store(uint32(tags))
	var ring nqKeyring
	if err := p.objects.Keys.Lookup(uint32(0), &ring); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if k := ring.keyring(); len(k.Keys) > 0 {
		p.outlet.keys.Store(k)
	}
	return nil
}

func (r *nqKeyring) keyring() *wire.Keyring {
	k := &wire.Keyring{Sign: r.Sign}
	for _, set := range r.Sets {
		if set.Valid == 0 {
			continue
		}
		secrets := make([]wire.Secret, len(set.Keys))
		for i, words := range set.Keys {
			binary.LittleEndian.PutUint64(secrets[i][:8], words[0])
			binary.LittleEndian.PutUint64(secrets[i][8:], words[1])
		}
		k.Keys = append(k.Keys, wire.Keys{Generation: set.Generation, Read: &secrets[0], Write: &secrets[1], Chain: &secrets[2]})
	}
	return k
}
