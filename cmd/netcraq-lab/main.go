// Command netcraq-lab extends netcraq with labs on one machine, simulations and the conformance suite.
package main

import (
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
)

func main() { cli.Main("Labs on one machine, simulations, conformance", lab.Commands()) }
