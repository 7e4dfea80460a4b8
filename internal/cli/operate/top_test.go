package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/placement"
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
		t.Run(end, func(t *testing.T) {
			m := clitest.StartManaged(t, "127.3.9.1", "--shards", "4", "--replicas", "1")
			m.StartNode("n1", "127.3.9.11:4411")
			m.Await("the first chains", clitest.FullyReplicated(1))
			watchTop(t, end, "n1", "--controllers", m.Controller)
		})
	}
}

// TestKeysOnATerminal: so does --keys, with what has changed, and with what a gateway that is gone says.
func TestKeysOnATerminal(t *testing.T) {
	asked := atomic.Int64{}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		if n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode([]placement.Explanation{{Key: fmt.Sprint("hot", n)}}) // the client checks it
	}))
	defer gateway.Close()
	seen := watchTop(t, "q", "hot3", "--keys", "--gateways", gateway.URL)
	if !bytes.Contains(seen, []byte("hot1")) || !bytes.Contains(seen, []byte("503")) {
		t.Errorf("the screen: %q", seen)
	}
}

// watchTop runs top on a terminal, ends it when it has drawn a text, three times at least, and returns what was drawn.
func watchTop(t *testing.T, end, until string, args ...string) (seen []byte) {
	t.Helper()
	screen, program := terminal(t, 80, 24)
	top := exec.Command(os.Args[0], append([]string{"top"}, args...)...)
	top.Env = append(os.Environ(), clitest.AsCommand+"=1")
	top.Stdin, top.Stdout = program, program
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clitest.Kill(top) })
	program.Close()
	giveUp := time.AfterFunc(clitest.Formed, func() { top.Process.Kill() })
	defer giveUp.Stop()
	piece, interrupted := make([]byte, 4096), false
	for {
		n, err := screen.Read(piece) // fails when the program has ended
		if err != nil {
			break
		}
		seen = append(seen, piece[:n]...)
		if interrupted || bytes.Count(seen, []byte(drawAgain)) < 3 || !bytes.Contains(seen, []byte(until)) {
			continue
		}
		interrupted = true
		if end == "q" {
			_, err = screen.Write([]byte("q"))
		} else {
			err = top.Process.Signal(os.Interrupt)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := top.Wait(); err != nil || !interrupted {
		t.Fatalf("%v: %q", err, seen)
	}
	if !bytes.HasPrefix(seen, []byte(enterScreen)) || !bytes.HasSuffix(seen, []byte(leaveScreen)) {
		t.Errorf("the screen: %q", seen)
	}
	return seen
}
