package retry

import (
	"context"
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	p := Between(20*time.Millisecond, 100*time.Millisecond)
	for i, middle := range []time.Duration{20, 40, 80, 100, 100} {
		middle *= time.Millisecond
		if got := p.next.NextBackOff(); got < middle/2 || got > middle*3/2 {
			t.Errorf("pause %d is %v, not about %v", i+1, got, middle)
		}
	}
	p.Reset()
	if got := p.next.NextBackOff(); got > 30*time.Millisecond {
		t.Errorf("after a reset the pause is %v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if Between(time.Hour, time.Hour).Wait(ended) {
		t.Error("a pause outlived its context")
	}
	if !Sleep(t.Context(), 0) {
		t.Error("no pause at all ended the context")
	}
}
