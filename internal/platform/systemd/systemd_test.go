package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// TestSupervise plays systemd: a service is ready, then alive, silent while it is not, and says that it stops.
func TestSupervise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	next := func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var dead, asked atomic.Int64
	alive := func() error {
		asked.Add(1)
		if dead.Add(-1) >= 0 {
			return errors.New("stuck")
		}
		return nil
	}
	dead.Store(3)
	ready := Supervise(ctx, slog.New(slog.DiscardHandler), alive)
	ready()
	if got := next(); got != "READY=1" {
		t.Errorf("%q at the start", got)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("%q while it lives", got)
	}
	if n := asked.Load(); n < 4 {
		t.Errorf("it said that it lives after %d checks, of which three failed", n)
	}
	cancel()
	for got := next(); got != "STOPPING=1"; got = next() {
		if got != "WATCHDOG=1" {
			t.Errorf("%q at the end", got)
		}
	}
}

func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	ctx, cancel := context.WithCancel(t.Context())
	Supervise(ctx, slog.New(slog.DiscardHandler), nil)()
	cancel()
}
