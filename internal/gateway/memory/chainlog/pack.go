package chainlog

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packer compresses batches. Kubernetes' objects resemble each other, so a batch takes a fraction of its length. The
// chain checks its objects, so frames have no checksums.
type packer struct {
	w   *zstd.Encoder
	out []byte
}

// pack returns a compressed batch, valid until the next call, or the batch itself if that is not longer.
func (p *packer) pack(batch []byte) (packed []byte, smaller bool) {
	if p.w == nil {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil { // of the options
			return batch, false
		}
		p.w = w
	}
	p.out = p.w.EncodeAll(batch, p.out[:0])
	return p.out, len(p.out) < len(batch)
}

// packWindow is the window of the compression, in bytes.
const packWindow = 1 << 18

// unpacker decodes batches. All logs of a process share it.
var unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
})

func unpack(b []byte) ([]byte, error) {
	u, err := unpacker()
	if err != nil {
		return nil, err
	}
	return u.DecodeAll(b, nil)
}
