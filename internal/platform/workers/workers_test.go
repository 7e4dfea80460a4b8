package workers

import (
	"sync"
	"testing"
	"testing/synctest"
)

// TestPool: work runs at once, also while all else waits, and no more workers rest than may, and none after the end.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, goes := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		done := 0
		p := New(2, ended, func(n int) {
			<-goes
			mu.Lock()
			defer mu.Unlock()
			done += n
		})
		for range 5 {
			p.Go(1)
		}
		synctest.Wait()
		close(goes)
		synctest.Wait()
		if n := p.resting.Load(); done != 5 || n != 2 {
			t.Fatalf("%d done, %d rest", done, n)
		}
		p.Go(10) // by one that rests
		synctest.Wait()
		if n := p.resting.Load(); done != 15 || n != 2 {
			t.Fatalf("%d done, %d rest", done, n)
		}
		close(ended)
		synctest.Wait()
		if n := p.resting.Load(); n != 0 {
			t.Errorf("%d rest after the end", n)
		}
		p.Go(100)
		synctest.Wait()
		if done != 115 {
			t.Errorf("%d done", done)
		}
	})
}
