package conformance

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/clitest/command"
)

// asDriver makes the test binary the driver of the Go client.
const asDriver = "NETCRAQ_TEST_AS_DRIVER"

func TestMain(m *testing.M) {
	if os.Getenv(asDriver) != "" {
		if err := Drive(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(clitest.AsCommand) != "" {
		command.Main(m)
		return
	}
	var err error
	if programs, err = os.MkdirTemp("", "conformance"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// programs is the directory of compiled programs.
var programs string

// language is a client and the command of its driver.
type language struct {
	name    string
	command func(t *testing.T) *exec.Cmd
}

var languages = []language{
	{"Go", func(*testing.T) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asDriver+"=1")
		return cmd
	}},
	{"Python", func(t *testing.T) *exec.Cmd { return python(t) }},
	{"Python asyncio", func(t *testing.T) *exec.Cmd { return python(t, "aio") }},
	{"C", func(t *testing.T) *exec.Cmd { return exec.Command(compileC(t, "driver")) }},
}

func python(t *testing.T, args ...string) *exec.Cmd {
	path, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python3 is needed: `scripts/setup.sh test` installs it")
	}
	return exec.Command(path, append([]string{"-B", filepath.Join("..", "python", "tests", "driver.py")}, args...)...)
}

// missing skips a test whose language is not installed; in CI the test fails.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// driver is a running driver.
type driver struct {
	language string
	in       io.Writer
	answers  chan string
}

// startDriver starts a driver until the test ends.
func startDriver(t *testing.T, l language) *driver {
	t.Helper()
	cmd := l.command(t)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &driver{language: l.name, in: in, answers: make(chan string)}
	go func() {
		defer close(d.answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			d.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		timer := time.AfterFunc(answered, func() { _ = cmd.Process.Kill() }) // it may have ended
		defer timer.Stop()
		for range d.answers {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the driver of %s: %v", l.name, err)
		}
	})
	return d
}

// answered is how long a driver may take for one operation, on a broken machine.
const answered = 2 * time.Minute

// do has the driver execute a line, and returns the outcome.
func (d *driver) do(t *testing.T, format string, args ...any) Outcome {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	d.begin(t, line)
	return d.end(t, line)
}

func (d *driver) begin(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		t.Fatalf("the driver has ended: %v", err)
	}
}

func (d *driver) end(t *testing.T, line string) Outcome {
	t.Helper()
	var o Outcome
	select {
	case text, ok := <-d.answers:
		if !ok {
			t.Fatalf("the driver has ended at %s", line)
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&o); err != nil {
			t.Fatalf("%s: the driver wrote %q: %v", line, text, err)
		}
	case <-time.After(answered):
		t.Fatalf("%s: the driver did not answer", line)
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	return o
}

// hexOf writes a key or value as lines want it.
func hexOf(text string) string { return hex.EncodeToString([]byte(text)) }
