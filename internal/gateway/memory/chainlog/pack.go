package chainlog

import (
	"bytes"
	"compress/flate"
	"io"
)

// packer compresses batches. Kubernetes' objects resemble each other, so a batch takes a fraction of its length.
type packer struct {
	w   *flate.Writer
	out bytes.Buffer
}

// pack returns a compressed batch, valid until the next call, or the batch itself if that is not longer.
func (p *packer) pack(batch []byte) (packed []byte, smaller bool) {
	p.out.Reset()
	if p.w == nil {
		p.w, _ = flate.NewWriter(&p.out, flate.BestSpeed) // fails only for an unknown level
	} else {
		p.w.Reset(&p.out)
	}
	_, err := p.w.Write(batch)
	if err != nil || p.w.Close() != nil || p.out.Len() >= len(batch) {
		return batch, false
	}
	return p.out.Bytes(), true
}

func unpack(b []byte) ([]byte, error) { return io.ReadAll(flate.NewReader(bytes.NewReader(b))) }
