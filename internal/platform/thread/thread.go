// Package thread runs functions on operating-system threads of their own. Network namespaces, mounts, priorities and
// the signal at a parent's death belong to threads.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that ends with it, and with it the thread's namespaces unless something else uses them.
// Goroutines that f starts run elsewhere.
func Do(f func() error) error {
	done := make(chan error)
	spare(func() { done <- f() })
	return <-done
}

// In runs f like [Do], in the network namespace at a path.
func In(namespace string, f func() error) error {
	return Do(func() error {
		if err := Enter(namespace); err != nil {
			return err
		}
		return f()
	})
}

// spare runs f on a new thread. It never uses the process's first thread: that one does not end, and its namespace is
// reported as the namespace of the process.
func spare(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		started := make(chan struct{})
		spare(func() { close(started); f() }) // this goroutine holds the first thread, so another one runs f
		<-started
		runtime.UnlockOSThread()
	}()
}

// Thread runs functions one after another on one thread.
type Thread struct {
	work  chan func()
	ended chan struct{}
}

// Start returns a thread on which enter has succeeded.
func Start(enter func() error) (*Thread, error) {
	t := &Thread{work: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error)
	spare(func() {
		defer close(t.ended)
		err := enter()
		ready <- err
		if err != nil {
			return
		}
		for f := range t.work {
			f()
		}
	})
	return t, <-ready
}

// Do runs f on the thread.
func (t *Thread) Do(f func() error) error {
	done := make(chan error)
	t.work <- func() { done <- f() }
	return <-done
}

// Close ends the thread.
func (t *Thread) Close() {
	close(t.work)
	<-t.ended
}
