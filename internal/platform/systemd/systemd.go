// Package systemd tells systemd that a service is ready, alive and stopping. Without systemd it does nothing.
package systemd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// pingsPerTimeout is how many times in the watchdog's timeout a service says that it is alive.
const pingsPerTimeout = 3

// Supervise says that this service is stopping when ctx ends. Once ready was called it says that the service is ready and,
// while alive returns no error, that it lives. systemd restarts it if it does not; nil: the process runs.
func Supervise(ctx context.Context, log *slog.Logger, alive func() error) (ready func()) {
	context.AfterFunc(ctx, func() { notify(log, daemon.SdNotifyStopping) })
	return func() {
		notify(log, daemon.SdNotifyReady)
		timeout, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			log.Warn("the watchdog of systemd is not answered", "error", err)
		}
		if timeout > 0 && err == nil {
			go ping(ctx, log, timeout/pingsPerTimeout, alive)
		}
	}
}

// ping says at intervals that the service is alive.
func ping(ctx context.Context, log *slog.Logger, every time.Duration, alive func() error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		var err error
		if alive != nil {
			err = alive()
		}
		if err != nil {
			log.Error("this service is not alive; systemd will restart it if this lasts", "error", err)
		} else {
			notify(log, daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd is not told", "state", state, "error", err)
	}
}
