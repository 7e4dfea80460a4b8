package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/figure"
)

// A figure that takes longer than planned has no time left that could be told.
func TestProgressLine(t *testing.T) {
	late := progressLine(figure.Progress{Figure: "f", Done: 9, Cells: 10, Text: "x"})
	if strings.Contains(late, "0s left") || !strings.Contains(late, "longer than planned") {
		t.Errorf("%q", late)
	}
	if line := progressLine(figure.Progress{Figure: "f", Left: 90 * time.Second}); !strings.Contains(line, "1m30s left") {
		t.Errorf("%q", line)
	}
}
