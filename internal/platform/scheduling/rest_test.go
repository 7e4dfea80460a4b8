package scheduling

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPausesAreNotShortened: signals of the runtime, which interrupt the kernel's sleep, do not end a pause early.
func TestPausesAreNotShortened(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Microsecond, preciseUpTo, preciseUpTo + 1} {
		for range 20 {
			begin := time.Now()
			if Sleep(pause); time.Since(begin) < pause {
				t.Fatalf("a pause of %v took %v", pause, time.Since(begin))
			}
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, pause := range []time.Duration{0, preciseUpTo, preciseUpTo + 1} {
		if err := Wait(ctx, pause); err != nil {
			t.Errorf("a pause of %v ends with %v", pause, err)
		}
	}
	cancel()
	for _, pause := range []time.Duration{0, preciseUpTo, time.Hour} {
		if err := Wait(ctx, pause); !errors.Is(err, context.Canceled) {
			t.Errorf("a pause of %v of a context that ended ends with %v", pause, err)
		}
	}
}
