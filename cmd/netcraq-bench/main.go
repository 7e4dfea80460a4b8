// Command netcraq-bench extends netcraq with benchmarks, and the systems and papers that it is compared with.
package main

import (
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/bench"
)

func main() { cli.Main("Benchmarks", bench.Commands()) }
