package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClient runs the whole benchmark briefly, and expects that it gives this process its CPUs back.
func TestClient(t *testing.T) {
	needRoot(t)
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &before); err != nil {
		t.Fatal(err)
	}
	procs := runtime.GOMAXPROCS(0)
	profile := filepath.Join(t.TempDir(), "cpu")
	r, err := Client(t.Context(), ClientOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 100, ValueBytes: 16}, Nodes: 1, CPUs: 1, Batch: 64,
		Windows: Windows{Seconds: 0.2, Rounds: 2}, Profile: profile,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Gets == 0 || r.Wrong != 0 || r.GetsPerS <= 0 || r.Allocations <= 0 || len(r.Rounds) != 2 {
		t.Errorf("%+v", r)
	}
	if header, rows := r.Table(); len(rows) != 3 || len(rows[0]) != len(header) {
		t.Errorf("table %v %v", header, rows)
	}
	if s, err := os.Stat(profile); err != nil || s.Size() == 0 {
		t.Errorf("profile: %v, %+v", err, s)
	}
	if err := unix.SchedGetaffinity(os.Getpid(), &after); err != nil {
		t.Fatal(err)
	}
	if after != before || runtime.GOMAXPROCS(0) != procs {
		t.Errorf("CPUs %v with %d at once, before %v with %d", after, runtime.GOMAXPROCS(0), before, procs)
	}
}

// TestClientsTrains: the kernel cuts trains before a native XDP program sees them. A generic one sees a train as one
// frame; the client gives trains up there, and all gets succeed.
func TestClientsTrains(t *testing.T) {
	needRoot(t)
	for _, mode := range []string{"native", "generic"} {
		began := time.Now()
		r, err := Client(t.Context(), ClientOptions{
			NodeOptions: NodeOptions{Plane: planeXDP, Mode: mode, Keys: 1000, ValueBytes: 16}, Nodes: 1, CPUs: 1, Batch: 256,
			Windows: Windows{Seconds: 0.2, Rounds: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Gets == 0 || r.Wrong != 0 || r.Trains == 0 || r.Refused == r.Trains {
			t.Errorf("%s: %+v", mode, r)
		}
		// A train is tried a second after the latest at the soonest.
		if most := uint64(time.Since(began).Seconds()) + 2; mode == "generic" && r.Trains > most {
			t.Errorf("%d trains of %d bundles to a node that takes none", r.Trains, r.Bundles)
		}
	}
}
