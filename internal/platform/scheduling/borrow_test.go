package scheduling

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestBorrowedRealTimeIsGivenBack: all threads are of the real-time class, also one that starts later, until the end.
func TestBorrowedRealTimeIsGivenBack(t *testing.T) {
	attributes := func(thread int) unix.SchedAttr {
		a, err := unix.SchedGetAttr(thread, 0)
		if err != nil {
			t.Fatal(err)
		}
		return *a
	}
	before := attributes(0)
	stop := make(chan struct{})
	defer close(stop)
	early := lockedThread(stop)
	end := BorrowRealTime()
	late := lockedThread(stop)
	during := attributes(early)
	if !isRealTime(&during) {
		t.Skip("this user's processes cannot be real-time")
	}
	if during != attributes(late) {
		t.Errorf("a thread that started later has %+v, others have %+v", attributes(late), during)
	}
	end()
	for _, thread := range []int{0, early, late} {
		if after := attributes(thread); after != before {
			t.Errorf("thread %d has %+v afterwards, and had %+v before", thread, after, before)
		}
	}
}
