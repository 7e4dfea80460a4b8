package reconfig

import (
	"strings"
	"testing"
)

// TestDescribe: each command has a description, and no two have the same.
func TestDescribe(t *testing.T) {
	commands := []Command{
		Drain{"n1"}, Undrain{"n1"}, Cordon{"n1"}, Uncordon{"n1"}, Remove{"n1"}, Fail{"n1"}, Replicas{3}, MoveShard{7, "n1", "n2"},
		Resize{7, 1}, HandOver{7, "n1"}, AcceptLoss{7}, SetTimes{}, SetTags{true}, SetTags{false}, RaiseFloor{9},
	}
	seen := make(map[string]bool)
	for _, command := range commands {
		text := Describe(command)
		if strings.HasPrefix(text, "reconfig.") || seen[text] {
			t.Errorf("%T: %q", command, text)
		}
		seen[text] = true
	}
}
