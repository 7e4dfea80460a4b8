package bmv2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Ports of the programs (p4/target.p4); networks have the lower numbers.
const (
	ports     = 16
	portAgain = 12
	portCPU   = 13
	portHost  = 14
	portDrop  = 15
)

// Offsets in platform_h (p4/network.p4).
const (
	platformBytes = 16
	atBytes       = 8
	atPort        = 11
	atCopies      = 12
	atCopy        = 13
	atNote        = 14
)

const (
	// mostUnderWay are the frames that the switch has at a time: psa_switch loses frames if it has hundreds.
	mostUnderWay = 32
	// lostAfter is the time without any frame from the switch after which those under way count as lost.
	lostAfter = 10 * time.Second
	// shortest is the shortest frame that an interface carries.
	shortest = 14
)

// frame is one at a port.
type frame struct {
	port int
	data []byte
}

// counts are of one network.
type counts struct{ received, sent, unsent uint64 }

// engine is a switch with its control plane. Only the goroutine of run uses it.
type engine struct {
	program  *program
	sw       *client
	taps     [ports]*os.File
	networks []*os.File
	counts   []counts
	control  *control

	arrivals chan frame // from interfaces
	exits    chan frame // from the switch
	ended    <-chan error

	entries  map[string]*entry
	changes  []*entry // until commit
	spoilt   bool     // one failed since the last hold or release
	underWay int
	held     int
	lost     uint64
	clock    uint64 // 0: the machine's
	captures bool   // frames that leave go to the control plane
}

// start lets frames in.
func (e *engine) start() {
	for i, tap := range e.taps {
		go receive(i, tap, e.exits)
	}
	for i, network := range e.networks {
		go receive(i, network, e.arrivals)
	}
}

// run serves frames and requests until the control plane is gone.
func (e *engine) run() error {
	for {
		arrivals := e.arrivals
		if e.held > 0 || e.underWay >= mostUnderWay {
			arrivals = nil
		}
		var late <-chan time.Time
		if e.underWay > 0 {
			late = time.After(lostAfter)
		}
		select {
		case f := <-arrivals:
			e.counts[f.port].received++
			if err := e.enter(f, 0, nil); err != nil {
				return err
			}
		case f := <-e.exits:
			if err := e.leave(f); err != nil {
				return err
			}
		case <-late:
			e.lose()
		case err := <-e.ended:
			return fmt.Errorf("%s ended: %w", switchName, errors.Join(err, errors.New("it runs no longer")))
		case line, ok := <-e.control.lines:
			if !ok {
				return nil
			}
			if err := e.serve(line); err != nil {
				return err
			}
		}
	}
}

// settle waits until no frame is under way.
func (e *engine) settle() error {
	for e.underWay > 0 {
		select {
		case f := <-e.exits:
			if err := e.leave(f); err != nil {
				return err
			}
		case <-time.After(lostAfter):
			e.lose()
		case err := <-e.ended:
			return fmt.Errorf("%s ended: %w", switchName, errors.Join(err, errors.New("it runs no longer")))
		}
	}
	return nil
}

func (e *engine) lose() {
	e.lost += uint64(e.underWay)
	fmt.Fprintf(os.Stderr, "netcraq-bmv2: %s lost %d frames\n", switchName, e.underWay)
	e.underWay = 0
}

// enter gives a frame to the switch, with platform_h in front.
func (e *engine) enter(f frame, copyNumber byte, note []byte) error {
	if len(f.data) < shortest || len(f.data) > deviceBytes-platformBytes {
		return e.out(frame{portHost, f.data}) // no program reads it, and the switch cannot carry it
	}
	b := make([]byte, platformBytes, platformBytes+len(f.data))
	binary.BigEndian.PutUint64(b, e.now())
	binary.BigEndian.PutUint16(b[atBytes:], uint16(len(f.data)))
	b[atPort], b[atCopy] = byte(f.port), copyNumber
	copy(b[atNote:], note)
	if _, err := e.taps[f.port].Write(append(b, f.data...)); err != nil {
		return fmt.Errorf("port %d: %w", f.port, err)
	}
	e.underWay++
	return nil
}

func (e *engine) now() uint64 {
	if e.clock != 0 {
		return e.clock
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return ^uint64(0) // every lease has ended
	}
	return uint64(t.Nano())
}

// leave takes a frame from the switch.
func (e *engine) leave(f frame) error {
	e.underWay = max(e.underWay-1, 0)
	if f.port != portAgain {
		return e.out(f)
	}
	if len(f.data) < platformBytes {
		return nil
	}
	for i := range f.data[atCopies] {
		again := frame{portAgain, f.data[platformBytes:]}
		if err := e.enter(again, i, f.data[atNote:platformBytes]); err != nil {
			return err
		}
	}
	return nil
}

// out sends a frame by its port.
func (e *engine) out(f frame) error {
	switch {
	case f.port == portDrop:
	case e.captures:
		e.control.say("out %d %x\n", f.port, f.data)
	case f.port == portCPU:
		e.control.say("cpu %d %x\n", f.port, f.data)
		return e.control.flush()
	case f.port < len(e.networks): // the host has its own copy of what came by an interface
		if _, err := e.networks[f.port].Write(f.data); err != nil {
			e.counts[f.port].unsent++ // lost, as on a wire
		} else {
			e.counts[f.port].sent++
		}
	}
	return nil
}
