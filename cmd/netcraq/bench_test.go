package main

import "testing"

// TestBenchRefusesWrongOptions: as errors of usage, and before it makes anything.
func TestBenchRefusesWrongOptions(t *testing.T) {
	needRoot(t)
	for _, args := range [][]string{
		{"read", "--keys", "0"},
		{"read", "--seconds", "0"},
		{"distance", "--nodes", "9"},
		{"write", "--value-bytes", "1353"},
		{"mix", "--write-share", "1.5"},
		{"mix", "--target", "3"},
		{"latency", "--count", "0"},
		{"memory", "--keys", "-1"},
		{"restart", "--keys", "-1"},
		{"restart", "--kills", "0"},
		{"restart", "--rate", "NaN"},
		{"latency", "--plane", "hard"},
	} {
		if out, code, err := netcraq(append([]string{"bench"}, args...)...); code != exitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}
