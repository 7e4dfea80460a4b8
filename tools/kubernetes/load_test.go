package kubernetes

import "testing"

// TestLongestOfAnEvent: the longest operation of an event is none of those before it.
func TestLongestOfAnEvent(t *testing.T) {
	lines := `{"writes":10,"longest_ms":900,"longest":"before"}
{"writes":20,"longest_ms":30,"longest":"put"}
{"writes":30,"longest_ms":20,"longest":"get","errors":1}
`
	for writes, want := range map[uint64]tally{
		10: {Writes: 30, Errors: 1, LongestMs: 30, Longest: "put"},
		20: {Writes: 30, Errors: 1, LongestMs: 20, Longest: "get"},
		0:  {Writes: 30, Errors: 1, LongestMs: 900, Longest: "before"},
	} {
		if got, err := sum(lines, writes); err != nil || got != want {
			t.Errorf("after %d writes: %+v, %v", writes, got, err)
		}
	}
}
