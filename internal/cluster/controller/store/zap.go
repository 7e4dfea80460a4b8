package store

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapToSlog hands etcd's log on. etcd warns of much that is no trouble of the cluster's, so all but its errors are details.
type zapToSlog struct {
	log  *slog.Logger
	hush *atomic.Bool // it is being ended: errors are expected
}

func newZap(log *slog.Logger, hush *atomic.Bool) *zap.Logger {
	return zap.New(zapToSlog{log.With("part", "etcd"), hush})
}

func levelOf(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (z zapToSlog) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && !z.hush.Load() && z.log.Enabled(context.Background(), levelOf(l))
}

func (z zapToSlog) With(fields []zapcore.Field) zapcore.Core {
	return zapToSlog{z.log.With(attributes(fields)...), z.hush}
}

func (z zapToSlog) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if z.Enabled(e.Level) {
		return checked.AddCore(e, z)
	}
	return checked
}

func (z zapToSlog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	z.log.Log(context.Background(), levelOf(e.Level), e.Message, attributes(fields)...)
	return nil
}

func (zapToSlog) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	var out []any
	for key, value := range encoder.Fields {
		out = append(out, slog.Any(key, value))
	}
	return out
}
