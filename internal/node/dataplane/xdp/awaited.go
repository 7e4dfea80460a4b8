package xdp

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// awaitedReader passes on the keys that the program tells of (bpf/node/await.h).
type awaitedReader struct {
	ring *ringbuf.Reader
	keys chan wire.Key
	done chan struct{}
}

func readAwaited(m *ebpf.Map) (*awaitedReader, error) {
	ring, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, err
	}
	r := &awaitedReader{ring: ring, keys: make(chan wire.Key, dataplane.AwaitedRoom), done: make(chan struct{})}
	go r.run()
	return r, nil
}

func (r *awaitedReader) run() {
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

func (r *awaitedReader) close() error {
	err := r.ring.Close()
	<-r.done
	return err
}

// Awaited implements [dataplane.Plane].
func (p *Plane) Awaited() <-chan wire.Key { return p.awaited.keys }
