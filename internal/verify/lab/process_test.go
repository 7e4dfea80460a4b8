package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// execVariable is how often this program becomes itself before it ends.
const execVariable = "NETCRAQ_TEST_EXEC"

// execFromThread replaces the program from a thread that is not the process's first one.
func execFromThread(left int) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() { // the first thread stays busy, so this goroutine has another one next time
			go func() { runtime.LockOSThread(); done <- become(left) }()
			select {}
		}
		done <- become(left)
	}()
	fmt.Println(<-done)
	os.Exit(1)
}

func become(left int) error {
	if left == 0 {
		os.Exit(0)
	}
	return unix.Exec("/proc/self/exe", os.Args, []string{fmt.Sprintf("%s=%d", execVariable, left-1)})
}

// TestAliveWhileItExecs: the first thread of a process is dead for a moment when another one replaces the program, as
// commands of netcraq do. The process is alive.
func TestAliveWhileItExecs(t *testing.T) {
	const times = 100
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", execVariable, times))
	wait, ended, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer wait.Close()
	c.Stderr, c.ExtraFiles = os.Stderr, []*os.File{ended} // closed when the process has ended
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended.Close()
	p, err := ProcessOf(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	for running := true; running; looks++ {
		alive := p.Alive()
		n, err := eintr.Value(func() (int, error) {
			return unix.Poll([]unix.PollFd{{Fd: int32(wait.Fd()), Events: unix.POLLIN}}, 0)
		})
		if running = n == 0 || err != nil; running && !alive {
			t.Errorf("look %d: a running process is not alive", looks)
			break
		}
	}
	t.Logf("%d looks at %d programs", looks, times)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if p.Alive() {
		t.Error("a process that has ended is alive")
	}
}
