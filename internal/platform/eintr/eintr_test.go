package eintr

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSignalsDoNotEndACall sends signals to a thread that waits in a receive with a timeout, which the kernel does not
// begin again by itself, until one has interrupted it; only then the message comes.
func TestSignalsDoNotEndACall(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	patience := unix.Timeval{Sec: 600}
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		t.Fatal(err)
	}
	thread, calls := make(chan int), make(chan struct{}, 1)
	type result struct {
		n   int
		err error
	}
	received := make(chan result)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		var buffer [8]byte
		n, err := Value(func() (int, error) {
			select {
			case calls <- struct{}{}:
			default:
			}
			n, _, err := unix.Recvfrom(pair[0], buffer[:], 0)
			return n, err
		})
		received <- result{n, err}
	}()
	target := <-thread
	<-calls
	for again := false; !again; {
		// Go's runtime sends this signal to preempt threads, and handles it.
		if err := unix.Tgkill(os.Getpid(), target, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		select {
		case <-calls:
			again = true
		case r := <-received:
			t.Fatalf("a signal ended the call: %d, %v", r.n, r.err)
		default:
			runtime.Gosched()
		}
	}
	if err := Retry(func() error { return unix.Sendto(pair[1], []byte("abc"), 0, nil) }); err != nil {
		t.Fatal(err)
	}
	if r := <-received; r.n != 3 || r.err != nil {
		t.Errorf("%d, %v", r.n, r.err)
	}
}

func TestOtherErrorsEndACall(t *testing.T) {
	calls := 0
	_, err := Value(func() (int, error) { calls++; return 0, unix.EAGAIN })
	if calls != 1 || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("%d calls, %v", calls, err)
	}
}
