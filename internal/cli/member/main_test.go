package member_test

import (
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest/command"
)

func TestMain(m *testing.M) { command.Main(m) }
