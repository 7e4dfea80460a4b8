package netcraqpaper

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Port is the UDP port of the nodes.
const Port = 8889

// Sizes in bytes. A message has 162 bits, from the most significant bit on, and 6 zeros behind them.
const (
	ValueBytes   = 16
	MessageBytes = 21
)

// Op is KV_OP.
type Op uint8

// Ops.
const (
	Read Op = iota
	ReadReply
	Write
	Acknowledge
)

// String is the op's name.
func (o Op) String() string {
	return [...]string{"read", "read-reply", "write", "acknowledge"}[o&3]
}

// Value is VALUE.
type Value [ValueBytes]byte

// String is the value as text without the zeros at its end, in hexadecimal if it is not text.
func (v Value) String() string {
	end := len(v)
	for end > 0 && v[end-1] == 0 {
		end--
	}
	for _, b := range v[:end] {
		if b < ' ' || b > '~' {
			return fmt.Sprintf("0x%x", v[:])
		}
	}
	return fmt.Sprintf("%q", v[:end])
}

// Message is the content of a UDP datagram.
type Message struct {
	Op    Op
	Key   uint32
	Value Value
}

// ErrMalformed says that a datagram is no message.
var ErrMalformed = errors.New("not a NetCRAQ message as published")

// opShift is how far KEY_ID and VALUE stand to the right of a byte's beginning: behind KV_OP.
const opShift = 2

// Append encodes the message.
func (m *Message) Append(b []byte) []byte {
	fields := binary.BigEndian.AppendUint32(make([]byte, 0, MessageBytes), m.Key)
	fields = append(fields, m.Value[:]...)
	carry := byte(m.Op) << (8 - opShift)
	for _, f := range fields {
		b = append(b, carry|f>>opShift)
		carry = f << (8 - opShift)
	}
	return append(b, carry)
}

// Decode reads a datagram.
func Decode(b []byte) (Message, error) {
	if len(b) != MessageBytes || b[MessageBytes-1]<<opShift != 0 {
		return Message{}, ErrMalformed
	}
	var fields [MessageBytes - 1]byte
	for i := range fields {
		fields[i] = b[i]<<opShift | b[i+1]>>(8-opShift)
	}
	m := Message{Op: Op(b[0] >> (8 - opShift)), Key: binary.BigEndian.Uint32(fields[:])}
	copy(m.Value[:], fields[4:])
	return m, nil
}
