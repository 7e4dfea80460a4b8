//go:build !linux

package client

import "time"

// bootTime is the time since some moment in the past, sleep included. Go's own clock may stand still while the machine
// sleeps, and there is no clock here that never does and is never set either.
func bootTime() time.Duration { return wallTime() }
