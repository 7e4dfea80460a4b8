package operate

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/cli"
)

// onKey calls pressed for every key pressed on a terminal, until restore resets the terminal. Ctrl-C still sends a signal.
// If in is no terminal, onKey does nothing.
func onKey(in *os.File, pressed func(key byte)) (restore func()) {
	if !cli.IsTerminal(in) {
		return func() {}
	}
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		return func() {}
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO // no line buffering, no echo
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &now); err != nil {
		return func() {}
	}
	go func() { // ends with the process: a read of a terminal cannot be cancelled
		for key := make([]byte, 1); ; {
			if n, err := in.Read(key); n == 0 || err != nil {
				return
			}
			pressed(key[0])
		}
	}()
	return func() { _ = unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, before) }
}
