package xdp

import (
	"encoding/binary"
	"slices"
	"testing"
)

// TestKeyPieces: pieces hold all keys in their order, and none is longer than pieceKeys.
func TestKeyPieces(t *testing.T) {
	var pieces keyPieces
	var want []tableKey
	for _, n := range []int{0, 1, pieceKeys - 1, 0, 1, 3*pieceKeys + 7, 256} {
		keys := make([]tableKey, n)
		for i := range keys {
			binary.BigEndian.PutUint64(keys[i][:], uint64(len(want)+i))
		}
		pieces.add(keys...)
		want = append(want, keys...)
	}
	if pieces.count() != len(want) || !slices.Equal(slices.Concat(pieces...), want) {
		t.Errorf("%d keys in the pieces, %d were added", pieces.count(), len(want))
	}
	for i, piece := range pieces {
		if len(piece) > pieceKeys || i < len(pieces)-1 && len(piece) < pieceKeys {
			t.Errorf("piece %d of %d has %d keys", i, len(pieces), len(piece))
		}
	}
}
