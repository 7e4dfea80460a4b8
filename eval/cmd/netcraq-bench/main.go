// Command netcraq-bench extends netcraq with benchmarks, and the systems and papers that it is compared with.
package main

import (
	"github.com/netcraq/netcraq/eval/cli/bench"
	"github.com/netcraq/netcraq/eval/cli/history"
	"github.com/netcraq/netcraq/eval/cli/mutate"
	"github.com/netcraq/netcraq/eval/cli/papers"
	"github.com/netcraq/netcraq/internal/cli"
)

func main() {
	cli.Main("Benchmarks, the papers' protocols",
		bench.Commands(), history.Commands(), papers.Commands(), mutate.Commands())
}
