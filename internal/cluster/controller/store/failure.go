package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// failure is how an embedded etcd ended that cannot go on, such as on a full disk. etcd logs an entry that is fatal or a
// panic then, which would end this process at once, with a dump of its goroutines instead of advice. What etcd has
// confirmed is on the disk by then.
type failure struct {
	dir    string
	once   sync.Once
	err    error
	failed chan struct{} // closed when err is set
}

func newFailure(dir string) *failure { return &failure{dir: dir, failed: make(chan struct{})} }

func (f *failure) happened() bool {
	select {
	case <-f.failed:
		return true
	default:
		return false
	}
}

// OnWrite records the reason. It never returns: the goroutine of etcd that calls it must not go on, and what it holds is
// never free again. So the process has to end.
func (f *failure) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.once.Do(func() {
		f.err = explainFailure(f.dir, e.Message, fields)
		close(f.failed)
	})
	select {}
}

// explainFailure turns etcd's last log entry into an error.
func explainFailure(dir, message string, fields []zapcore.Field) error {
	cause := errors.New(message)
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			cause = fmt.Errorf("%s: %w", message, err)
		}
	}
	is := func(errno unix.Errno) bool { // some packages of etcd log the text of an error only
		return errors.Is(cause, errno) || strings.Contains(cause.Error(), errno.Error())
	}
	switch {
	case is(unix.ENOSPC), is(unix.EDQUOT):
		return fmt.Errorf("the disk with %s (--data-dir) is full: make room there, or copy the directory to a larger disk, then start "+
			"this controller again; it goes on with all that was confirmed (etcd: %w)", dir, cause)
	case is(unix.EIO), is(unix.EROFS):
		return fmt.Errorf("the disk with %s (--data-dir) cannot be written: repair it and start this controller again, or replace the "+
			"controller with `netcraq controllers replace` (etcd: %w)", dir, cause)
	}
	return fmt.Errorf("the embedded etcd in %s (--data-dir) cannot go on: %w", dir, cause)
}

// Failed waits until the embedded etcd cannot go on, and returns why; nil once ctx ends. The process must end then.
func (s *Store) Failed(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.server.failure.failed:
		return s.server.failure.err
	}
}
