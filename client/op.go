package client

import (
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// Op is one operation for [Client.Do] or [Client.Start]; made by GetOp and its like.
type Op struct {
	Key     string
	kind    wire.Op
	value   []byte
	operand uint64
	read    []ReadOption
	hash    wire.Key // instead of that of Key, if hashed
	hashed  bool
	epoch   uint32 // the only one in which the write may happen; 0: any
}

// Key is a key with its hash, which nodes store. It saves callers that use a key again the time to compute the hash.
type Key struct {
	name string
	hash wire.Key
}

// KeyOf hashes a key.
func KeyOf(name string) (Key, error) {
	hash, err := hashKey(name)
	return Key{name, hash}, err
}

// String returns the key without its hash.
func (k Key) String() string { return k.name }

// WithKey returns the operation on another key.
func (o Op) WithKey(k Key) Op {
	o.Key, o.hash, o.hashed = k.name, k.hash, true
	return o
}

// GetOp is a [Client.Get].
func GetOp(key string, options ...ReadOption) Op {
	return Op{Key: key, kind: wire.OpRead, read: options}
}

// PutOp is a [Client.Put]. The value must not change until the operation has ended.
func PutOp(key string, value []byte) Op { return Op{Key: key, kind: wire.OpPut, value: value} }

// DeleteOp is a [Client.Delete].
func DeleteOp(key string) Op { return Op{Key: key, kind: wire.OpDelete} }

// CASOp is a [Client.CAS]. The value must not change until the operation has ended.
func CASOp(key string, expected uint64, value []byte) Op {
	return Op{Key: key, kind: wire.OpCAS, operand: expected, value: value}
}

// InEpoch restricts a write to one epoch of its shard, as [Result.Epoch] tells it. In another the error is ErrOtherEpoch. A shard
// that lost its state is in another epoch, so a write that follows from a read cannot meet the versions of another history.
func (o Op) InEpoch(epoch uint32) Op {
	o.epoch = epoch
	return o
}

// AddOp is a [Client.Add].
func AddOp(key string, delta int64) Op { return Op{Key: key, kind: wire.OpAdd, operand: uint64(delta)} }

// GetHashedOp is a [Client.Get] of a key of which only the hash is known, as nodes store it.
func GetHashedOp(key wire.Key) Op { return GetOp("").WithKey(Key{key.String(), key}) }

// PutHashedOp is a [Client.Put] of a key of which only the hash is known. The value must not change until the
// operation has ended.
func PutHashedOp(key wire.Key, value []byte) Op {
	return PutOp("", value).WithKey(Key{key.String(), key})
}

// Kind is the operation's kind.
func (o *Op) Kind() wire.Op { return o.kind }

// Name is that of the client's method for it, in lower case.
func (o *Op) Name() string { return opName(o.kind) }

// hashedKey is the operation's key with its hash.
func (o *Op) hashedKey() (Key, error) {
	if o.hashed {
		return Key{o.Key, o.hash}, nil
	}
	return KeyOf(o.Key)
}

func hashKey(key string) (wire.Key, error) {
	hashed, err := wire.HashKey([]byte(key))
	if err != nil {
		return hashed, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return hashed, nil
}
