// Package bmv2 has the P4 programs as p4c's BMv2 backend compiled them, for psa_switch.
package bmv2

import (
	_ "embed"

	"github.com/netcraq/netcraq/p4"
)

// Halves end the names of the two arrays of 32 bits that hold an array of 64-bit registers: the high bits, the low bits.
var Halves = [...]string{".high", ".low"}

// Program is one program, compiled for both targets.
type Program struct {
	Name      string
	SWX, BMv2 []byte
}

var (
	//go:embed netcraq.json
	node []byte
	//go:embed swap.json
	swap []byte
)

// Programs are the programs of package p4.
var Programs = []Program{
	{"netcraq", p4.Program, node}, {"swap", p4.Swap, swap},
}
