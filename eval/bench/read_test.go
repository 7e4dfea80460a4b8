package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestRead runs the whole benchmark briefly on the soft plane.
func TestRead(t *testing.T) {
	for _, slots := range []int{0, 7} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) { readOnSockets(t, slots) })
	}
}

func readOnSockets(t *testing.T, slots int) {
	needRoot(t)
	r, err := Read(t.Context(), ReadOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 100, ValueBytes: 16},
		Windows:     Windows{Seconds: 0.4, Rounds: 2}, Slots: slots,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent == 0 || r.Wrong != 0 || r.ReadsPerS == 0 || r.EchoPerS == 0 || r.SocketEchoPerS == 0 || len(r.Rounds) != 2 {
		t.Errorf("%+v", r)
	}
	if header, rows := r.Table(); len(rows) != 3 || len(rows[0]) != len(header) {
		t.Errorf("table %v %v", header, rows)
	}
}

func TestReadStopsWhenTold(t *testing.T) {
	needRoot(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := Read(ctx, ReadOptions{NodeOptions: NodeOptions{Plane: "soft", Keys: 1, ValueBytes: 16},
		Windows: Windows{Seconds: 1, Rounds: 1}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestReadOnSwitch: a p4 node is compared with a P4 program that swaps addresses and with an XDP node.
func TestReadOnSwitch(t *testing.T) {
	needRoot(t)
	enginetest.Need(t)
	r, err := Read(t.Context(), ReadOptions{
		NodeOptions: NodeOptions{Plane: planeP4, Keys: 100, ValueBytes: 16},
		Windows:     Windows{Seconds: 0.4, Rounds: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Switch
	if r.Sent == 0 || r.Wrong != 0 || s == nil {
		t.Fatalf("%+v", r)
	}
	if s.SwapPerS == 0 || s.XDPReadsPerS == 0 || s.RatioToSwap == 0 || s.RatioToXDP == 0 {
		t.Errorf("%+v", s)
	}
	if header, rows := r.Table(); len(rows) != 3 || len(rows[0]) != len(header) || len(rows[2]) != len(header) {
		t.Errorf("table %v %v", header, rows)
	}
}
