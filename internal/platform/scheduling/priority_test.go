package scheduling

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAllThreadsAreAlike: all threads get the class, also those that start during Raise. The real-time class comes last,
// because its threads keep it.
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
	type priority struct {
		policy uint32
		nice   int32
	}
	policies := make(map[priority]int)
	err := EachThread(func(id int) error {
		now, err := unix.SchedGetAttr(id, 0)
		if err == nil {
			policies[priority{now.Policy, now.Nice}]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(policies) != 1 {
		t.Errorf("threads by policy: %v", policies)
	}
}

// TestThreadsOfAWalk: each thread is visited once, also one that starts during the walk. ESRCH is ignored, any other error
// is returned.
func TestThreadsOfAWalk(t *testing.T) {
	visited, stop := make(map[int]int), make(chan struct{})
	defer close(stop)
	started := 0
	err := EachThread(func(id int) error {
		if visited[id]++; started == 0 {
			started = lockedThread(stop)
		}
		return unix.ESRCH
	})
	if err != nil || visited[started] != 1 || visited[unix.Gettid()] > 1 {
		t.Errorf("visits of threads: %v; %d was started on the way; %v", visited, started, err)
	}
	if err := EachThread(func(int) error { return unix.EACCES }); !errors.Is(err, unix.EACCES) {
		t.Errorf("a refusal is %v", err)
	}
}

// lockedThread starts a goroutine that keeps a thread of its own, and returns its id.
func lockedThread(stop <-chan struct{}) int {
	id := make(chan int)
	go func() {
		runtime.LockOSThread()
		id <- unix.Gettid()
		<-stop
	}()
	return <-id
}

func TestUnknownClass(t *testing.T) {
	class := RealTime
	if err := class.Set("urgent"); err == nil || class != RealTime {
		t.Errorf("an unknown class is accepted: %v, %s", err, class)
	}
}
