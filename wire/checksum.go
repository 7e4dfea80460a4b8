package wire

import "encoding/binary"

// Sum is the unfolded ones' complement sum of b as big-endian 16-bit words; an odd last byte counts as its word's
// first half (RFC 1071).
func Sum(b []byte) uint64 {
	var sum uint64
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		sum += v>>32 + v&0xffffffff
		b = b[8:]
	}
	for len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// Fold reduces a sum to 16 bits with end-around carry.
func Fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// checksumOK reports whether a whole message, its checksum field included, sums to all ones.
func checksumOK(message []byte) bool { return Fold(Sum(message)) == 0xffff }

// Seal fills in the checksum of an encoded message whose other bytes are final. It does not check them. The message has at
// least [BaseBytes] bytes.
func Seal(message []byte) {
	binary.BigEndian.PutUint16(message[offBaseChecksum:], 0)
	binary.BigEndian.PutUint16(message[offBaseChecksum:], ^Fold(Sum(message)))
}
