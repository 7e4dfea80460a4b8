package command

import (
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

// Advice names only flags and commands that there are.
func TestAdviceExists(t *testing.T) {
	CheckAdvice(t, "../../../..", []string{
		"eval/", "internal/cli/lab/member_flags.go", "internal/cli/lab/simple_switch.go", "internal/member/",
		"internal/tools/", "internal/verify/enginetest/", "internal/verify/kubernetes/",
		"tools/suites/kubernetes/testdata/member.go",
	}, cli.Extensions()...)
}
