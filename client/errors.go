package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// Errors to compare with errors.Is.
var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("not found")
	// ErrCASFailed: the version was another; see CASFailedError.
	ErrCASFailed = errors.New("the version is not the expected one")
	// ErrOutcomeUnknown: the write may have happened, may happen later, or never; see OutcomeUnknownError.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrTimeout: no answer in time. It is also a context.DeadlineExceeded.
	ErrTimeout error = timeoutError{}
	// ErrBusy: a write of the key was under way, or the nodes may not answer, for as long as the operation lasted.
	ErrBusy = errors.New("busy")
	// ErrFull: a node has no room for another object or session; the write had no effect, and never will, so it can be
	// tried again. With ErrOutcomeUnknown: a P4 node, or one of an older version, has no room for another session. The
	// error that wraps it says how to make room.
	ErrFull = errors.New("no room")
	// ErrTooLarge: the value is longer than a message or than the node's cells.
	ErrTooLarge = errors.New("value too large")
	// ErrNotCounter: Add of a key whose value is not 8 bytes.
	ErrNotCounter = errors.New("the value is not a counter of 8 bytes")
	// ErrBadRequest: the arguments, or the message as the node received it, break a rule.
	ErrBadRequest = errors.New("invalid request")
	// ErrNotMine: the node does not serve the key in the client's map; see NotMineError.
	ErrNotMine = errors.New("the cluster file does not match the cluster")
	// ErrOtherEpoch: the shard is not in the epoch that the write was restricted to.
	ErrOtherEpoch = errors.New("the shard is in another epoch")
	// ErrNoChain: no node serves the key.
	ErrNoChain = errors.New("no chain serves the key")
	// ErrDenied: the client's identity may not do this.
	ErrDenied = errors.New("denied: this identity may not do it; use one with another role")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client is closed")
)

type timeoutError struct{}

func (timeoutError) Error() string        { return "no answer in time" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// OpError says which operation failed. ErrNotFound and an unusable key come without it.
type OpError struct {
	Op       wire.Op
	Key      string
	Attempts int
	Elapsed  time.Duration
	Err      error
}

// Error describes the failure, and the attempts made if they matter.
func (e *OpError) Error() string {
	text := fmt.Sprintf("%s %s: %v", opName(e.Op), quoteKey(e.Key), e.Err)
	if e.Attempts > 1 {
		text += fmt.Sprintf(" (%d attempts in %v)", e.Attempts, e.Elapsed.Round(time.Millisecond))
	}
	return text
}

func (e *OpError) Unwrap() error { return e.Err }

// opName is the name of the client's method.
func opName(op wire.Op) string {
	if op == wire.OpRead {
		return "get"
	}
	return op.String()
}

// quoteKey shows the beginning of a key, which may be long and any bytes.
func quoteKey(key string) string {
	const most = 64
	if len(key) > most {
		return strconv.Quote(key[:most]) + "..."
	}
	return strconv.Quote(key)
}

// CASFailedError has the version and value that a compare-and-set found instead of the expected version.
type CASFailedError struct {
	Expected uint64
	Version  uint64 // the key's version; 0: never written
	Value    []byte // its value; empty also if the key was deleted, or if ValueUnknown
	// ValueUnknown: another write has replaced the value since.
	ValueUnknown bool
}

func (e *CASFailedError) Error() string {
	if e.Version == 0 {
		return fmt.Sprintf("version %d expected, but the key was never written", e.Expected)
	}
	return fmt.Sprintf("version %d expected, but it is %d", e.Expected, e.Version)
}

// Is makes the error an ErrCASFailed.
func (e *CASFailedError) Is(target error) bool { return target == ErrCASFailed }

// OutcomeUnknownError is the end of a write of which the client could not learn whether it happened. Cause is
// the last obstacle, such as ErrTimeout, ErrBusy or the context's error.
type OutcomeUnknownError struct{ Cause error }

func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("outcome unknown, the write may or may not take effect: %v", e.Cause)
}

// Is makes the error an ErrOutcomeUnknown.
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

func (e *OutcomeUnknownError) Unwrap() error { return e.Cause }

// NotMineError is the answer of a node whose configuration differs from the client's map.
type NotMineError struct {
	Node        string
	Shard       uint16
	ClientEpoch uint32
	NodeEpoch   uint32 // 0: the node does not know the shard
}

func (e *NotMineError) Error() string {
	advice := "use the cluster's own file"
	if e.NodeEpoch < e.ClientEpoch {
		advice = "the node may be starting; otherwise use the cluster's own file"
	}
	if e.NodeEpoch == 0 {
		return fmt.Sprintf("%v: node %s does not serve shard %d (the file's epoch is %d): %s",
			ErrNotMine, e.Node, e.Shard, e.ClientEpoch, advice)
	}
	return fmt.Sprintf("%v: for shard %d the file has epoch %d, node %s has %d: %s",
		ErrNotMine, e.Shard, e.ClientEpoch, e.Node, e.NodeEpoch, advice)
}

// Is makes the error an ErrNotMine.
func (e *NotMineError) Is(target error) bool { return target == ErrNotMine }
