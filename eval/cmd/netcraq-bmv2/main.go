// Command netcraq-bmv2 is the engine of P4 nodes on BMv2's psa_switch. It takes the place of netcraq-swx.
package main

import (
	"fmt"
	"os"

	"github.com/netcraq/netcraq/eval/bmv2"
)

func main() {
	if err := bmv2.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netcraq-bmv2:", err)
		os.Exit(1)
	}
}
