package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Key is a key as it travels: the first 128 bits of the SHA-256 of the key's bytes. Clients hash, so they need no
// directory, and data planes match a fixed width.
type Key struct{ Hi, Lo uint64 }

// HashKey gives the wire key of a user's key of 1 to [MaxKeyBytes] bytes; longer keys are an error.
func HashKey(key []byte) (Key, error) {
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return Key{}, fmt.Errorf("a key has 1 to %d bytes, this one has %d", MaxKeyBytes, len(key))
	}
	sum := sha256.Sum256(key)
	return Key{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}, nil
}

// Shard is the shard of the key among the given number of shards, a power of two from 1 to [MaxShards].
func (k Key) Shard(shards int) uint16 { return uint16(k.Lo & uint64(shards-1)) }

// String is the key as 32 hexadecimal digits.
func (k Key) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[0:], k.Hi)
	binary.BigEndian.PutUint64(b[8:], k.Lo)
	return hex.EncodeToString(b[:])
}

// ParseKey parses the output of [Key.String].
func ParseKey(s string) (Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return Key{}, fmt.Errorf("%q is not 32 hexadecimal digits", s)
	}
	return Key{binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint64(b[8:])}, nil
}
