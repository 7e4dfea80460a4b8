// Package telemetry makes OpenTelemetry spans and metrics of a client's operations.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/netcraq/netcraq/client"
)

// Options configure [New]. The zero value of every field is its default.
type Options struct {
	// Tracer and Meter default to those that are set for the whole program.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// Keys puts the key into each span. It is left out by default, for keys may be confidential.
	Keys bool
}

const scope = "github.com/netcraq/netcraq/client"

// Attributes beyond OpenTelemetry's conventions for databases.
const (
	attrKey      = attribute.Key("netcraq.key")
	attrVersion  = attribute.Key("netcraq.version")
	attrShard    = attribute.Key("netcraq.shard")
	attrEpoch    = attribute.Key("netcraq.epoch")
	attrNode     = attribute.Key("netcraq.node")
	attrHops     = attribute.Key("netcraq.hops")
	attrDirty    = attribute.Key("netcraq.dirty")
	attrAttempts = attribute.Key("netcraq.attempts")
)

// New makes an observer for [client.Options]: a span for each operation, as a child of that in the caller's context,
// and the histograms db.client.operation.duration (seconds) and netcraq.client.attempts.
func New(o Options) (client.Observer, error) {
	if o.Tracer == nil {
		o.Tracer = otel.GetTracerProvider()
	}
	if o.Meter == nil {
		o.Meter = otel.GetMeterProvider()
	}
	meter := o.Meter.Meter(scope)
	duration, err := meter.Float64Histogram("db.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an operation, its retries included."),
		metric.WithExplicitBucketBoundaries(1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02,
			0.05, 0.1, 0.2, 0.5, 1, 5))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	attempts, err := meter.Int64Histogram("netcraq.client.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Messages sent for an operation."),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 5, 10, 20, 50))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t := &telemetry{tracer: o.Tracer.Tracer(scope), duration: duration, attempts: attempts, keys: o.Keys}
	return t.observe, nil
}

type telemetry struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	attempts metric.Int64Histogram
	keys     bool
}

// observe begins a span.
func (t *telemetry) observe(ctx context.Context, op *client.Op) func(client.Result, error) {
	operation := attribute.String("db.operation.name", op.Name())
	system := attribute.String("db.system.name", "netcraq")
	began := time.Now()
	ctx, span := t.tracer.Start(ctx, op.Name(), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began),
		trace.WithAttributes(operation, system))
	if t.keys {
		span.SetAttributes(attrKey.String(op.Key))
	}
	return func(r client.Result, err error) {
		tried := r.Attempts
		if failed := new(client.OpError); errors.As(err, &failed) {
			tried = failed.Attempts
		}
		span.SetAttributes(attrAttempts.Int(tried))
		if r.Node != "" {
			span.SetAttributes(attrNode.String(r.Node), attrVersion.Int64(int64(r.Version)), attrShard.Int(int(r.Shard)),
				attrEpoch.Int64(int64(r.Epoch)), attrHops.Int(r.Hops), attrDirty.Bool(r.Dirty))
		}
		all := []attribute.KeyValue{operation, system}
		if kind := errorType(err); kind != "" {
			all = append(all, attribute.String("error.type", kind))
			span.SetAttributes(all[len(all)-1])
			span.SetStatus(codes.Error, err.Error())
		}
		set := metric.WithAttributes(all...)
		t.duration.Record(ctx, time.Since(began).Seconds(), set)
		t.attempts.Record(ctx, int64(tried), set)
		span.End()
	}
}

// errorType returns a short name of the failure; empty: there is none. A key that is not there is an answer.
func errorType(err error) string {
	if err == nil || errors.Is(err, client.ErrNotFound) {
		return ""
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{client.ErrCASFailed, "cas_failed"}, {client.ErrOutcomeUnknown, "outcome_unknown"}, {client.ErrTimeout, "timeout"},
		{client.ErrFull, "full"}, {client.ErrTooLarge, "too_large"}, {client.ErrNotCounter, "not_counter"},
		{client.ErrNotMine, "not_mine"}, {client.ErrNoChain, "no_chain"}, {client.ErrDenied, "denied"},
		{client.ErrBadRequest, "bad_request"}, {client.ErrClosed, "closed"}, {context.Canceled, "canceled"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "other"
}
