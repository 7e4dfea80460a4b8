package priority

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAllThreadsAreAlike: also those that were started while the process was raised.
func TestAllThreadsAreAlike(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	go func() { // threads come and go all the time
		for {
			select {
			case <-stop:
				return
			default:
			}
			done := make(chan struct{})
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				close(done)
			}()
			<-done
		}
	}()
	if err := Raise(); err != nil {
		t.Skip("this user's processes are all of one priority: ", err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	policies := make(map[uint32]int)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if now, err := unix.SchedGetAttr(id, 0); err == nil {
			policies[now.Policy]++
		}
	}
	if len(policies) != 1 {
		t.Errorf("threads by policy: %v", policies)
	}
}
