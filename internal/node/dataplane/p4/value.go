package p4

import "encoding/binary"

// ValueArrays are the ends of the names of the registers of a value (p4/value.p4): words of 8 bytes, and the rest of 4, 2
// and 1 bytes behind them.
var ValueArrays = [valueWords + 3]string{"0", "1", "2", "3", "4", "5", "6", "7", "_four", "_two", "_one"}

// Value is the contents of these registers.
type Value [len(ValueArrays)]uint64

// Split cuts a value of at most CellBytes bytes into its registers.
func Split(b []byte) (v Value) {
	for i := 0; len(b) >= 8; i++ {
		v[i] = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	if len(b) >= 4 {
		v[valueWords] = uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		v[valueWords+1] = uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		v[valueWords+2] = uint64(b[0])
	}
	return v
}

// Join is the value of so many bytes that the registers have, nil if it has none.
func (v *Value) Join(length int) (b []byte) {
	for i := range length / 8 {
		b = binary.BigEndian.AppendUint64(b, v[i])
	}
	if length&4 != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(v[valueWords]))
	}
	if length&2 != 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(v[valueWords+1]))
	}
	if length&1 != 0 {
		b = append(b, byte(v[valueWords+2]))
	}
	return b
}
