package p4

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EngineName is the program that runs SWX; it stands beside the command, or in PATH.
const EngineName = "netcraq-swx"

// EngineVersion is that of the requests to an engine, its ports and platform_h. ENGINE_VERSION in p4/engine/engine.h is the
// same number.
const EngineVersion = 3

// EngineVariable names the engine in the environment: a name, or a path.
const EngineVariable = "NETCRAQ_ENGINE"

// Descriptors of the engine: the first that [exec.Cmd] passes on, its control socket, the program that it runs.
const (
	firstFD   = 3
	controlFD = 3
	programFD = 4
)

const (
	startWait   = 30 * time.Second
	closeWait   = 5 * time.Second
	cpuFrames   = 4096
	maxLine     = 1 << 20
	explanation = 4096
)

// SWX is the engine: a process of its own, asked through a socket.
type SWX struct {
	command *exec.Cmd
	conn    net.Conn
	lines   chan []string // answers, in order of the requests
	forCPU  chan Left
	stderr  bytes.Buffer
	exited  chan struct{}

	mu    sync.Mutex // one request after the other
	names names
	gone  error
	once  sync.Once
}

var _ Switch = (*SWX)(nil)

// FindEngine returns the path of the engine that [StartSWX] starts.
func FindEngine() (string, error) {
	name := cmp.Or(os.Getenv(EngineVariable), EngineName)
	if filepath.Base(name) != name {
		return name, nil
	}
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor in PATH: build it (`make p4-engine` for %s: Debian's "+
			"libdpdk-dev is needed), or name an engine in %s", name, EngineName, EngineVariable)
	}
	return path, nil
}

// MayOpen says whether this process may open network interfaces for an engine.
func MayOpen() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("a switch needs root, or CAP_NET_RAW, for its network interfaces: %w", err)
	}
	return unix.Close(fd)
}

// StartSWX runs a compiled program on network interfaces, in the namespace of the calling thread. The environment chooses
// the engine.
func StartSWX(program []byte, megabytes int, interfaces ...string) (*SWX, error) {
	path, err := FindEngine()
	if err != nil {
		return nil, err
	}
	s := &SWX{lines: make(chan []string, 1), forCPU: make(chan Left, cpuFrames), exited: make(chan struct{})}
	spec := fmt.Sprintf("/proc/self/fd/%d", programFD)
	s.command = exec.Command(path, append([]string{spec, strconv.Itoa(megabytes)}, interfaces...)...)
	s.command.Stderr = &s.stderr
	if err = s.run(program); err != nil {
		return nil, err
	}
	go s.receive()
	select {
	case greeting, ok := <-s.lines:
		if !ok {
			return nil, errors.Join(s.Err(), s.Close())
		}
		if want := fmt.Sprintf("ready %d", EngineVersion); greeting[len(greeting)-1] != want {
			return nil, errors.Join(fmt.Errorf("%s is of another version than this program: it says %q instead of %q: build both "+
				"from the same sources (`make build`)", path, greeting[len(greeting)-1], want), s.Close())
		}
		if s.names, err = namesOf(program); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	case <-time.After(startWait):
		return nil, errors.Join(fmt.Errorf("%s does not start within %v", path, startWait), s.Close())
	}
}

// run starts the engine. A program in memory leaves no file behind, however the processes end.
func (s *SWX) run(program []byte) error {
	spec, err := inMemory(program)
	if err != nil {
		return err
	}
	defer spec.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "switch"), os.NewFile(uintptr(fds[1]), "control plane")
	s.conn, err = net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return errors.Join(err, theirs.Close())
	}
	s.command.ExtraFiles = []*os.File{controlFD - firstFD: theirs, programFD - firstFD: spec}
	if err := s.command.Start(); err != nil {
		return errors.Join(err, theirs.Close(), s.conn.Close())
	}
	return theirs.Close()
}

func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("netcraq.spec", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "netcraq.spec")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// receive reads the engine's output until it ends.
func (s *SWX) receive() {
	reader := bufio.NewReaderSize(s.conn, maxLine)
	var answer []string
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "cpu "):
			if left, err := parseLeft(line[len("cpu "):]); err == nil {
				select {
				case s.forCPU <- left:
				default: // the sender tries again
				}
			}
		case line == "ok", line == "ready", strings.HasPrefix(line, "ready "), strings.HasPrefix(line, "error "):
			s.lines <- append(answer, line)
			answer = nil
		default:
			answer = append(answer, line)
		}
	}
	err := s.command.Wait()
	s.gone = fmt.Errorf("%w: %s", ErrGone, s.explain(err))
	close(s.exited)
	close(s.lines)
	close(s.forCPU)
}

func (s *SWX) explain(err error) string {
	text := strings.TrimSpace(s.stderr.String())
	if text == "" && err != nil {
		text = err.Error()
	}
	if text == "" {
		text = "it ended"
	}
	return text[max(0, len(text)-explanation):]
}

func parseLeft(text string) (Left, error) {
	port, digits, _ := strings.Cut(text, " ")
	number, err := strconv.Atoi(port)
	if err != nil {
		return Left{}, err
	}
	b, err := hex.DecodeString(digits)
	return Left{number, b}, err
}

// Err says why the engine ended, nil while it runs.
func (s *SWX) Err() error {
	select {
	case <-s.exited:
		return s.gone
	default:
		return nil
	}
}

// Gone implements [Switch].
func (s *SWX) Gone() <-chan struct{} { return s.exited }

// ForCPU implements [Switch].
func (s *SWX) ForCPU() <-chan Left { return s.forCPU }

// ask sends lines and returns the lines of each answer, without its end. The caller holds the lock.
func (s *SWX) ask(lines []string) ([][]string, error) {
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(s.conn, strings.Join(lines, "\n")+"\n")
		sent <- err
	}()
	answers := make([][]string, 0, len(lines))
	var failed error
	for i := range lines {
		answer, ok := <-s.lines
		if !ok {
			return nil, s.Err()
		}
		last := answer[len(answer)-1]
		if why, bad := strings.CutPrefix(last, "error "); bad && failed == nil {
			failed = fmt.Errorf("switch: %s: %s", lines[i], why)
		}
		answers = append(answers, answer[:len(answer)-1])
	}
	if err := <-sent; err != nil {
		return nil, err
	}
	return answers, failed
}

// Do implements [Switch].
func (s *SWX) Do(r *Request) error {
	if len(r.changes)+len(r.accesses) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, first, err := s.names.lines(r)
	if err != nil {
		return err
	}
	answers, err := s.ask(lines)
	if err != nil {
		return err
	}
	for i := range r.accesses {
		if a := &r.accesses[i]; a.Visit != nil {
			if err := a.parse(answers[first+i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open makes an interface, in the namespace in which the engine was started, the next network port.
func (s *SWX) Open(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ask([]string{"open " + name})
	return err
}

// Pause implements [Switch].
func (s *SWX) Pause(paused bool) error {
	word := "release"
	if paused {
		word = "hold"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ask([]string{word})
	return err
}

// Try implements [Switch].
func (s *SWX) Try(port int, frame []byte) ([]Left, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, err := s.ask([]string{fmt.Sprintf("try %d %x", port, frame)})
	if err != nil {
		return nil, err
	}
	var all []Left
	for _, line := range answers[0] {
		left, err := parseLeft(strings.TrimPrefix(line, "out "))
		if err != nil {
			return nil, err
		}
		all = append(all, left)
	}
	return all, nil
}

// Put implements [Switch].
func (s *SWX) Put(port int, frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ask([]string{fmt.Sprintf("put %d %x", port, frame)})
	return err
}

// SetClock implements [Switch].
func (s *SWX) SetClock(now uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.ask([]string{fmt.Sprintf("clock %d", now)})
	return err
}

// Close ends the engine.
func (s *SWX) Close() error {
	var err error
	s.once.Do(func() {
		err = s.conn.Close()
		select {
		case <-s.exited:
		case <-time.After(closeWait):
			err = errors.Join(err, s.command.Process.Kill())
			<-s.exited
		}
	})
	return err
}
