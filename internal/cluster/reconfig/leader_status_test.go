package reconfig

import (
	"strings"
	"testing"
	"time"
)

// The status of a node that gets no copies for a time says why, and for how long.
func TestBackOffIsExplained(t *testing.T) {
	l := &Leader{time: 10 * time.Second}
	n := &node{failure: "a copy does not go on", failures: 3, rests: 14 * time.Second}
	if said := l.trouble(n, &Node{Standing: Up}); !strings.Contains(said, "a copy does not go on") || !strings.Contains(said, "3 times") ||
		!strings.Contains(said, "in 4s") {
		t.Error(said)
	}
	l.time = n.rests
	if said := l.trouble(n, &Node{Standing: Up}); said != n.failure {
		t.Error(said)
	}
}
