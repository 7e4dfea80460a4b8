package soft_test

import (
	"errors"
	"testing"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/netchain"
	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/eval/baseline/soft"
)

// hold checks a node on sockets against the written cases that apply to sockets, and against
// random packets.
func hold[S any, T baseline.Target[S]](
	t *testing.T,
	newTarget func() (T, error),
	vectors func() ([]baseline.Case[S], error),
	skipped int,
	reference baseline.Target[S],
	draw baseline.Draw[S],
) {
	t.Helper()
	target, err := newTarget()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}()
	cases, err := vectors()
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		switch err := baseline.Run[S](target, &c); {
		case errors.Is(err, baseline.ErrUnsupported):
			skipped--
			t.Log(err)
		case err != nil:
			t.Error(err)
		}
	}
	if skipped != 0 {
		t.Errorf("%d cases more are skipped than are about others' packets", -skipped)
	}
	if err := baseline.CompareMany(t.Context(), reference, target, draw, 1, 10_000, nil); err != nil {
		t.Error(err)
	}
}

func TestNetChainConforms(t *testing.T) {
	hold(t, soft.NewNetChainTarget, netchain.Vectors, 5, new(netchain.Node), netchain.RandomWidths())
}

func TestNetCRAQPaperConforms(t *testing.T) {
	hold(t, soft.NewNetCRAQPaperTarget, netcraqpaper.Vectors, 1, new(netcraqpaper.Node), netcraqpaper.Random())
}
