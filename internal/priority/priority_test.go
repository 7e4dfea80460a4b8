package priority

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAllThreadsAreAlike: also those that were started while the process was raised. The real-time class comes last, because who is in
// it stays.
func TestAllThreadsAreAlike(t *testing.T) {
	for _, class := range []Class{Fair, RealTime} {
		t.Run(string(class), func(t *testing.T) { threadsAreAlike(t, class) })
	}
}

func threadsAreAlike(t *testing.T, class Class) {
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
	if err := Raise(class); err != nil {
		t.Skip("this user's processes are all of one priority: ", err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	type priority struct {
		policy uint32
		nice   int32
	}
	policies := make(map[priority]int)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		if now, err := unix.SchedGetAttr(id, 0); err == nil {
			policies[priority{now.Policy, now.Nice}]++
		}
	}
	if len(policies) != 1 {
		t.Errorf("threads by policy: %v", policies)
	}
}

func TestUnknownClass(t *testing.T) {
	class := RealTime
	if err := class.Set("urgent"); err == nil || class != RealTime {
		t.Errorf("a class that there is not is taken: %v, %s", err, class)
	}
}
