package bmv2

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/netcraq/netcraq/eval/p4/bmv2"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// controlFD is the stream socket to the control plane, which passes it on.
const controlFD = 3

// Main runs the engine: arguments are a program that p4c compiled for SWX, a size that this engine does not need, and
// network interfaces. It ends when the control plane does.
func Main(arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("usage: netcraq-bmv2 SPEC MEGABYTES [INTERFACE...]")
	}
	spec, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	text, err := same(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	socket := os.NewFile(controlFD, "control")
	conn, err := net.FileConn(socket)
	if err = errors.Join(err, socket.Close()); err != nil {
		return fmt.Errorf("descriptor %d is a stream socket to the control plane: %w", controlFD, err)
	}
	e, err := open(text, arguments[2:])
	if err != nil {
		return err
	}
	e.control = openControl(conn)
	e.start()
	e.control.say("ready %d\n", p4.EngineVersion)
	if err := e.control.flush(); err != nil {
		return err
	}
	return e.run()
}

// open starts the switch and opens the interfaces.
func open(text []byte, interfaces []string) (*engine, error) {
	if len(interfaces) > portAgain {
		return nil, fmt.Errorf("%d interfaces: there are %d network ports", len(interfaces), portAgain)
	}
	p, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the program for %s: %w", switchName, err)
	}
	e := &engine{
		program: p, entries: make(map[string]*entry), arrivals: make(chan frame), exits: make(chan frame),
		counts: make([]counts, len(interfaces)),
	}
	for _, name := range interfaces {
		f, err := openInterface(name)
		if err != nil {
			return nil, err
		}
		e.networks = append(e.networks, f)
	}
	// The thread is in the switch's network namespace from here on.
	runtime.LockOSThread()
	s, err := startSwitch(text)
	if err != nil {
		return nil, err
	}
	e.sw, e.taps, e.ended = s.calls, s.taps, s.ended
	return e, nil
}

// same returns the program for BMv2 that was compiled from the same sources as a program for SWX.
func same(spec []byte) ([]byte, error) {
	for _, p := range bmv2.Programs {
		if bytes.Equal(p.SWX, spec) {
			return p.BMv2, nil
		}
	}
	return nil, errors.New("this program was not compiled for BMv2: give one of those in p4 or eval/p4")
}
