package peer

import (
	"strings"
	"testing"
)

// TestBenchmarkCommandFitsACommandLine expects no zero bytes in the version before a value. With
// one among arbitrary bytes, redis-benchmark could not start.
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
