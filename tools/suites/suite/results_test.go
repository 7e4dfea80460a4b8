package suite

import (
	"strings"
	"testing"
)

// TestParse reads what a test prints that logs as much as etcd's members do: the time grows with the length.
func TestParse(t *testing.T) {
	line := strings.Repeat("x", 200) + "\n"
	const lines = 200_000
	r := parse("=== RUN   TestA\n" + strings.Repeat(line, lines) + "member: 7 reads from the chain\n--- PASS: TestA (1.00s)\n" +
		"=== RUN   TestB\n=== RUN   TestB/part\n    --- PASS: TestB/part\n=== RUN   TestC\n--- SKIP: TestC (0.00s)\n")
	if got := r.String(); got != "1 pass, 1 skip, 1 fail; 7 reads from the chain" {
		t.Errorf("the results are %s", got)
	}
	if n := strings.Count(r.Output("TestA"), line); n != lines {
		t.Errorf("%d of %d lines are kept", n, lines)
	}
	if failed := r.Failed(); len(failed) != 1 || failed[0] != "TestB" {
		t.Errorf("failed: %v", failed)
	}
}

func TestReserve(t *testing.T) {
	first, err := reserve(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := reserve(t.Name()); err == nil {
		second.Close()
		t.Error("two have one name")
	}
	first.Close()
	if first, err = reserve(t.Name()); err != nil {
		t.Fatalf("the name is not free: %v", err)
	}
	first.Close()
}
