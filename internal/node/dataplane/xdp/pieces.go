package xdp

// pieceKeys is the number of keys in a piece. Tasks that change entries hold up walks and ConfigureAll for a piece at a
// time.
const pieceKeys = 1024

// keyPieces are keys of a table in pieces of at most pieceKeys. One slice of a million keys would copy megabytes
// whenever it grows: in the real-time class, clients on the same CPU wait meanwhile.
type keyPieces [][]tableKey

func (p *keyPieces) add(keys ...tableKey) {
	for len(keys) > 0 {
		last := len(*p) - 1
		if last < 0 || len((*p)[last]) == pieceKeys {
			*p = append(*p, nil)
			continue
		}
		n := min(len(keys), pieceKeys-len((*p)[last]))
		(*p)[last] = append((*p)[last], keys[:n]...)
		keys = keys[n:]
	}
}

func (p keyPieces) count() (n int) {
	for _, piece := range p {
		n += len(piece)
	}
	return n
}
