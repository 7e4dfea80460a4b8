package main

import (
	"slices"
	"testing"

	"github.com/netcraq/netcraq/eval/cli/bench"
	"github.com/netcraq/netcraq/eval/cli/history"
	"github.com/netcraq/netcraq/eval/cli/mutate"
	"github.com/netcraq/netcraq/eval/cli/papers"
	"github.com/netcraq/netcraq/internal/cli/clitest/command"
)

// Advice names only flags and commands that there are.
func TestAdviceExists(t *testing.T) {
	command.CheckAdvice(t, "../../cli", nil,
		slices.Concat(bench.Commands(), history.Commands(), papers.Commands(), mutate.Commands())...)
}
