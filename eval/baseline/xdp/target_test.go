package xdp

import (
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// open makes a target that the test closes.
func open[S any, T baseline.Target[S]](t *testing.T, newTarget func() (T, error)) T {
	t.Helper()
	roottest.Need(t)
	target, err := newTarget()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
	return target
}

// runVectors runs the written cases of a protocol on its program.
func runVectors[S any](t *testing.T, m baseline.Target[S], vectors func() ([]baseline.Case[S], error)) {
	t.Helper()
	cases, err := vectors()
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := baseline.Run[S](m, &c); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d cases", len(cases))
}
