// Package bmv2 has all P4 programs as p4c's BMv2 backend compiled them, for psa_switch.
package bmv2

import (
	_ "embed"
	"slices"

	papers "github.com/netcraq/netcraq/eval/p4"
	"github.com/netcraq/netcraq/p4/bmv2"
)

var (
	//go:embed netchain.json
	netChain []byte
	//go:embed netcraqpaper.json
	netCRAQPaper []byte
)

// Programs are the product's programs and the papers'.
var Programs = slices.Concat(bmv2.Programs, []bmv2.Program{
	{Name: "netchain", SWX: papers.NetChain, BMv2: netChain},
	{Name: "netcraqpaper", SWX: papers.NetCRAQPaper, BMv2: netCRAQPaper},
})
