package xdp

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// contendedReader reads the contended keys that the program reports (bpf/node/contended.h).
type contendedReader struct {
	ring *ringbuf.Reader
	keys chan wire.Key
	done chan struct{}
}

func readContended(m *ebpf.Map) (*contendedReader, error) {
	ring, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	r := &contendedReader{ring: ring, keys: make(chan wire.Key, dataplane.MaxContended), done: make(chan struct{})}
	go r.run()
	return r, nil
}

func (r *contendedReader) run() {
	defer close(r.done)
	var record ringbuf.Record
	for {
		err := r.ring.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return
		}
		if err != nil || len(record.RawSample) < keyBytesInTables {
			continue
		}
		select {
		case r.keys <- keyOf(record.RawSample[:keyBytesInTables]):
		default:
		}
	}
}

func (r *contendedReader) close() error {
	err := r.ring.Close()
	<-r.done
	return err
}

// Contended implements [dataplane.Plane].
func (p *Plane) Contended() <-chan wire.Key { return p.contended.keys }
