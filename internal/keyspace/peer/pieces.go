package peer

import (
	"errors"
	"io"
)

// pieces reads a content of which a stream brings the pieces.
type pieces struct {
	left []byte
	next func() ([]byte, error) // io.EOF: the content is complete
	err  error
}

// Read implements [io.Reader].
func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		if p.err == nil {
			p.left, p.err = p.next()
		}
		if p.err != nil {
			return 0, p.err
		}
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// inPieces calls send with the pieces of a content. send does not keep them.
func inPieces(content io.Reader, send func(piece []byte) error) error {
	buffer := make([]byte, pieceBytes)
	for {
		n, err := 0, error(nil)
		for n < len(buffer) && err == nil {
			var m int
			m, err = content.Read(buffer[n:])
			n += m
		}
		if n > 0 {
			if err := send(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
