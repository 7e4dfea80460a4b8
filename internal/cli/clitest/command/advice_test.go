package command

import (
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

// Advice names only flags and commands that there are.
func TestAdviceExists(t *testing.T) {
	CheckAdvice(t, "../../../..", []string{
		"eval/", "internal/cli/lab/member_flags.go", "internal/member/",
		"internal/node/dataplane/p4/p4runtime/simple_switch.go", "internal/tools/", "internal/verify/kubernetes/",
		"tools/suites/kubernetes/testdata/member.go",
	}, cli.Extensions()...)
}
