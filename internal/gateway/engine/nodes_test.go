package engine

import (
	"slices"
	"testing"
)

// TestInTurn: each key has its turn, also when keys come and go.
func TestInTurn(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		behind string
		most   int
		want   []string
	}{
		{"", 2, []string{"a", "b"}}, {"b", 2, []string{"c", "d"}}, {"d", 2, []string{"e", "a"}}, {"e", 2, []string{"a", "b"}},
		{"bb", 2, []string{"c", "d"}}, {"z", 9, keys}, {"c", 9, []string{"d", "e", "a", "b", "c"}},
	} {
		if got := inTurn(keys, c.behind, c.most); !slices.Equal(got, c.want) {
			t.Errorf("behind %q: %v, not %v", c.behind, got, c.want)
		}
	}
	if got := inTurn(nil, "a", 2); len(got) != 0 {
		t.Error(got)
	}
}
