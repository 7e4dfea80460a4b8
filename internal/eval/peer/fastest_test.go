package peer

import (
	"strings"
	"testing"
)

// A version before the value was any eight bytes, and with a zero among them redis-benchmark could not be started.
func TestBenchmarkCommandFitsACommandLine(t *testing.T) {
	for _, op := range []Op{Get, Put} {
		for _, argument := range benchmarkCommand(&Load{Op: op, ValueBytes: 300}) {
			if strings.ContainsRune(argument, 0) {
				t.Errorf("%s: %q", op, argument)
			}
		}
	}
	if command := benchmarkCommand(&Load{Op: Put, ValueBytes: 300}); len(command[2]) != tagBytes+300 {
		t.Errorf("a value of %d bytes", len(command[2]))
	}
}
