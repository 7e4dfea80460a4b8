package etcdkeyspace

import (
	"testing"
	"time"
)

// The gap is that between two answers, in whatever order callers noted them.
func TestGap(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	m := moments{all: []time.Time{at(9), at(1), at(2), at(8)}}
	if got := m.gap(); got != 6*time.Second {
		t.Errorf("%v, want 6 s", got)
	}
	if got := new(moments).gap(); got != 0 {
		t.Errorf("%v without answers", got)
	}
}
