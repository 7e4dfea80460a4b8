package operate

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// terminal opens a pseudo-terminal of this size. It returns the user's side and the program's side.
func terminal(t *testing.T, columns, rows uint16) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return screen, program
}

// TestTopOnATerminal: it draws again and again until Ctrl-C or q, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	for _, end := range []string{"Ctrl-C", "q"} {
		t.Run(end, func(t *testing.T) { testTopOnATerminal(t, end) })
	}
}

func testTopOnATerminal(t *testing.T, end string) {
	m := clitest.StartManaged(t, "127.3.9.1", "--shards", "4", "--replicas", "1")
	m.StartNode("n1", "127.3.9.11:4411")
	m.Await("the first chains", clitest.FullyReplicated(1))
	screen, program := terminal(t, 80, 24)
	top := exec.Command(os.Args[0], "top", "--controllers", m.Controller)
	top.Env = append(os.Environ(), clitest.AsCommand+"=1")
	top.Stdin, top.Stdout = program, program
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clitest.Kill(top) })
	program.Close()
	var seen []byte
	giveUp := time.AfterFunc(clitest.Formed, func() { top.Process.Kill() })
	defer giveUp.Stop()
	piece, interrupted := make([]byte, 4096), false
	for {
		n, err := screen.Read(piece) // fails when the program has ended
		if err != nil {
			break
		}
		seen = append(seen, piece[:n]...)
		if bytes.Count(seen, []byte(drawAgain)) >= 3 && !interrupted {
			interrupted = true
			var err error
			if end == "q" {
				_, err = screen.Write([]byte("q"))
			} else {
				err = top.Process.Signal(os.Interrupt)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := top.Wait(); err != nil || !interrupted {
		t.Fatalf("%v: %q", err, seen)
	}
	if !bytes.HasPrefix(seen, []byte(enterScreen)) || !bytes.HasSuffix(seen, []byte(leaveScreen)) ||
		!bytes.Contains(seen, []byte("n1")) {
		t.Errorf("the screen: %q", seen)
	}
}
