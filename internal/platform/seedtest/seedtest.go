// Package seedtest is for tests that draw random numbers.
package seedtest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// variable is the environment variable that gives a seed.
const variable = "NETCRAQ_SEED"

// Seed returns a test's seed, drawn unless $NETCRAQ_SEED gives one, and prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(variable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", variable, seed)
	return seed
}
