package chaos

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestProbesAreNotCollected: a collection of garbage would stop all probes at once, and look like a pause of the cluster.
func TestProbesAreNotCollected(t *testing.T) {
	const calls, garbage = 64, 1 << 20
	var done atomic.Int64
	enough := make(chan struct{})
	p := newProbes(nil)
	p.add(0, func(context.Context) error {
		sink = make([]byte, garbage)
		if done.Add(1) == calls {
			close(enough)
		}
		return nil
	})
	p.start(t.Context(), time.Microsecond)
	before := collections()
	<-enough
	during := collections() - before
	p.halt()
	if during != 0 {
		t.Errorf("%d collections while %d MB of garbage were made", during, calls)
	}
	for before = collections(); collections() == before; { // it goes on afterwards
		sink = make([]byte, garbage)
	}
}

var sink []byte

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}
