package guides

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a command of a document may take.
const patience = time.Minute

// endsWithin limits the time that the background commands of a session may take to end.
const endsWithin = 5 * time.Second

// nobody is the id of the user without rights.
const nobody = "65534"

// preamble begins every session: sudo is not needed, nor is make, since the programs are built. Every command in the background is
// a group of its own, so that Ctrl-C reaches it and no other.
const preamble = `exec 2>&1; set -m; sudo() { [ "$1" = -s ] || "$@"; }; make() { :; }
`

// session is a shell that runs one command after the other.
type session struct {
	shell *exec.Cmd
	in    io.WriteCloser
	lines chan string
	hangs bool   // a command is not done
	kept  string // log of the command that goes on
}

// endMark ends the output of a command; its exit status follows.
const endMark = "\x01end "

// isolate gives a session a network and file systems that no other has, as root can.
const isolate = `mount -t tmpfs tmpfs /run && mkdir -p /run/netns && mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf &&
ip link set lo up && exec "$@"`

// begin starts a shell in a directory, where the programs are below bin.
func begin(dir string, user bool) (*session, error) {
	argv := []string{"bash"}
	if user {
		argv = []string{"setpriv", "--reuid=" + nobody, "--regid=" + nobody, "--clear-groups", "bash"}
	}
	if os.Geteuid() == 0 {
		argv = append([]string{"unshare", "--mount", "--net", "--propagation", "private", "--", "sh", "-c",
			isolate, "guide"}, argv...)
	}
	s := &session{shell: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1<<16)}
	s.shell.Dir = dir
	s.shell.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"XDG_RUNTIME_DIR="+filepath.Join(dir, "run"))
	s.shell.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if s.in, err = s.shell.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.shell.Start(); err != nil {
		return nil, err
	}
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
	}()
	_, err = io.WriteString(s.in, preamble)
	return s, err
}

// run runs a command and returns its output and its exit status.
func (s *session) run(text string) (out []string, status int, err error) {
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\n\\001end %%d\\n' $?\n", text); err != nil {
		return nil, 0, err
	}
	late := time.After(patience)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return out, 0, errors.New("the shell has ended")
			}
			if code, end := strings.CutPrefix(line, endMark); end {
				status, err = strconv.Atoi(code)
				return out, status, err
			}
			out = append(out, line)
		case <-late:
			s.hangs = true
			return out, 0, fmt.Errorf("not done within %v; the rest is not run", patience)
		}
	}
}

// keep starts a command that stays running, and returns when it has printed the wanted output.
func (s *session) keep(text string, want []string, vary *regexp.Regexp) error {
	log, err := os.CreateTemp("", "guide-")
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.Chmod(0o666); err != nil {
		return err
	}
	s.kept = log.Name()
	if _, _, err := s.run(fmt.Sprintf("{ %s\n} >%s 2>&1 & kept=$!; true", text, s.kept)); err != nil {
		return err
	}
	want = Clean(want, vary)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(s.kept)
		if err != nil {
			return err
		}
		got := Clean(strings.Split(string(text), "\n"), vary)
		if Matches(want, got) {
			return nil
		}
		if time.Now().After(end) {
			return differs(want, got)
		}
	}
}

// interrupt ends the command of keep, as Ctrl-C does.
func (s *session) interrupt() error {
	if s.kept == "" {
		return errors.New("nothing was kept")
	}
	defer os.Remove(s.kept)
	s.kept = ""
	out, status, err := s.run("kill -INT -- -$kept; wait $kept")
	if err == nil && status != 0 {
		err = fmt.Errorf("what was kept ends with status %d: %s", status, strings.Join(out, "\n"))
	}
	return err
}

// close ends the session, with all that it left running.
func (s *session) close() {
	_, _ = io.WriteString(s.in, "for p in $(jobs -p); do kill -KILL -- -$p; done; exit\n")
	s.in.Close()
	late := time.AfterFunc(endsWithin, func() { _ = s.shell.Process.Kill() }) // a command that is not done
	defer late.Stop()
	_ = s.shell.Wait() // its status is that of the last command, which was checked
}

func differs(want, got []string) error {
	return fmt.Errorf("it should print\n\t%s\nand prints\n\t%s", strings.Join(want, "\n\t"), strings.Join(got, "\n\t"))
}
