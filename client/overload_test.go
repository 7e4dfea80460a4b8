package client

import (
	"fmt"
	"testing"
	"time"
)

// Overloaded nodes are not flooded with repetitions: all operations of a batch succeed.
func TestOverloadedNodes(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	resync(t, w.planes)
	w.slow(t, 3, 40)
	c := newClient(t, Options{Cluster: w.cluster, Timeout: time.Minute})
	ops := make([]Op, 400)
	for i := range ops {
		ops[i] = PutOp(fmt.Sprint("key ", i), nil)
	}
	attempts := 0
	for i, o := range c.Do(soon(t), ops) {
		if o.Err != nil {
			t.Fatalf("put %d: %v", i, o.Err)
		}
		attempts += o.Attempts
	}
	t.Logf("%d attempts for %d writes", attempts, len(ops))
	if attempts > 8*len(ops) { // 20 to 30 times without a limit, 4 with it
		t.Errorf("%d writes took %d attempts", len(ops), attempts)
	}
}

// slow limits every node to a few messages per millisecond. Messages that do not fit into a queue of the given length are
// lost.
func (w *network) slow(t *testing.T, each, length int) {
	queues := make([]chan packet, len(w.planes))
	for i := range queues {
		queue := make(chan packet, length)
		queues[i] = queue
		ticker := time.NewTicker(time.Millisecond)
		stop := make(chan struct{})
		t.Cleanup(func() { ticker.Stop(); close(stop) })
		go func() {
			for {
				select {
				case <-ticker.C:
				case <-stop:
					return
				}
				for range min(each, len(queue)) {
					d := <-queue
					_, _ = d.via.WriteToUDPAddrPort(d.data, d.to) // a closed socket loses the message
				}
			}
		}()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = queues
}
