package bmv2

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// lineBytes is the buffer of the control socket; lines may be longer.
const lineBytes = 1 << 20

// control is the socket to the control plane. p4/engine/control.c lists the requests.
type control struct {
	lines chan string
	w     *bufio.Writer
}

func openControl(conn io.ReadWriter) *control {
	c := &control{lines: make(chan string), w: bufio.NewWriterSize(conn, lineBytes)}
	go func() {
		defer close(c.lines)
		for r := bufio.NewReaderSize(conn, lineBytes); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return c
}

// say writes to the control plane; flush sends it.
func (c *control) say(format string, values ...any) { fmt.Fprintf(c.w, format, values...) }

func (c *control) flush() error { return c.w.Flush() }

// serve obeys one request and answers it. It fails if the engine cannot go on.
func (e *engine) serve(line string) error {
	if err := e.settle(); err != nil {
		return err
	}
	word, rest, _ := strings.Cut(line, " ")
	err := e.inGroup(word, rest)
	var fatal *fatalError
	switch {
	case errors.As(err, &fatal):
		return fatal.error
	case err != nil:
		e.control.say("error %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	default:
		e.control.say("ok\n")
	}
	return e.control.flush()
}

// fatalError ends the engine.
type fatalError struct{ error }

// inGroup refuses changes after one that failed, until the group ends.
func (e *engine) inGroup(word, rest string) error {
	change := slices.Contains([]string{"add", "del", "commit", "write"}, word)
	switch {
	case word == "hold" || word == "release":
		e.spoilt = false
	case change && e.spoilt:
		return errors.New("an earlier change of the group failed")
	}
	err := e.obey(word, rest)
	if change && err != nil {
		e.spoilt, e.changes = true, nil
	}
	return err
}

func (e *engine) obey(word, rest string) error {
	switch word {
	case "add", "del":
		change, err := e.program.parseEntry(rest)
		if err != nil {
			return err
		}
		if (word == "add") != (change.action != nil) {
			return errors.New("an entry to be added has an action, one to be removed has none")
		}
		e.changes = append(e.changes, change)
	case "commit":
		return e.commit()
	case "read", "scan":
		return e.answer(word == "read", rest)
	case "write":
		return e.set(rest)
	case "put", "try":
		return e.frame(word == "try", rest)
	case "hold":
		e.held++
	case "release":
		e.held = max(e.held-1, 0)
	case "clock":
		now, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return errors.New("a time in nanoseconds is wanted")
		}
		e.clock = now
	case "stats":
		for i, c := range e.counts {
			e.control.say("%d %d %d %d\n", i, c.received, c.sent, c.unsent)
		}
	case "default", "open":
		return fmt.Errorf("%s: this engine has the default actions and interfaces that it starts with", word)
	default:
		return errors.New("no such command")
	}
	return nil
}

// answer reads an array: all values, or those that are not zero.
func (e *engine) answer(all bool, rest string) error {
	var name string
	var first, count int
	if _, err := fmt.Sscanf(rest, "%s %d %d", &name, &first, &count); err != nil {
		return errors.New("an array, an index and a count are wanted")
	}
	var b strings.Builder
	err := e.read(name, first, count, func(index int, value uint64) {
		if all {
			fmt.Fprintf(&b, "%x ", value)
		} else if value != 0 {
			fmt.Fprintf(&b, "%x=%x ", index, value)
		}
	})
	if err == nil {
		e.control.say("%s\n", b.String())
	}
	return err
}

func (e *engine) set(rest string) error {
	words := strings.Fields(rest)
	if len(words) < 3 {
		return errors.New("an array, an index and values are wanted")
	}
	first, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	var values []uint64
	for _, word := range words[2:] {
		v, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	return e.write(words[0], first, values)
}

// frame takes one in, as if it had come by a port. With capture, the frames that leave because of it are in the answer.
func (e *engine) frame(capture bool, rest string) error {
	number, digits, _ := strings.Cut(rest, " ")
	port, err := strconv.Atoi(number)
	if err != nil || port < 0 || port >= ports {
		return errors.New("no such port")
	}
	data, err := hex.DecodeString(digits)
	if err != nil {
		return fmt.Errorf("a frame is wanted, in hexadecimal: %w", err)
	}
	e.captures = capture
	defer func() { e.captures = false }()
	if err := e.enter(frame{port, data}, 0, nil); err != nil {
		return &fatalError{err}
	}
	if err := e.settle(); err != nil {
		return &fatalError{err}
	}
	return nil
}
