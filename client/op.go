package client

import "github.com/netcraq/netcraq/wire"

// Op is one operation for [Client.Do] or [Client.Start]; made by GetOp and its like.
type Op struct {
	Key     string
	kind    wire.Op
	value   []byte
	operand uint64
	read    []ReadOption
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

// AddOp is a [Client.Add].
func AddOp(key string, delta int64) Op { return Op{Key: key, kind: wire.OpAdd, operand: uint64(delta)} }
