package core

import "slices"

// Put is a key that the gateway itself writes to etcd.
type Put struct {
	Key, Value string
	Session    bool  // attached to the session's lease
	Lease      int64 // attached to this lease of another session; 0: to none
}

// Cond is a condition on a key of etcd.
type Cond struct {
	Key    string
	End    string // CreateIs 0: of a range without keys; empty: one key
	Kind   CondKind
	Rev    int64  // ModIs, CreateIs
	Value  string // ValueBelow, ValueIs, ExistsBelow
	Negate bool
	Raw    any // what the caller compares in place of the fields above
}

// CondKind names the field that a [Cond] compares.
type CondKind uint8

// The conditions. A key that does not exist has the revisions 0 and the value "".
const (
	ModIs CondKind = iota
	CreateIs
	ValueBelow  // by bytes
	ValueIs     // of a key that exists
	ExistsBelow // ValueBelow, of a key that exists
)

// Write is one key that a client writes.
type Write struct {
	Key, Value string
	Delete     bool
	Leased     bool // attached to a lease of the client's
}

// Span is a range of keys, as etcd's range_end names it: all keys from From if End is "\x00".
type Span struct{ From, End string }

// Has reports whether a key lies in the span.
func (s Span) Has(key string) bool { return key >= s.From && (s.End == "\x00" || key < s.End) }

// Txn is a client's transaction.
type Txn struct {
	ID         uint64
	If         []Cond
	Then, Else []Write
	Spans      []Span // whose keys it may delete
	Erases     bool   // it does nothing but delete, so afterwards all its keys are absent
	Raw        any    // what the caller executes in place of the fields above
}

// spans reports whether the transaction may delete a key as one of many.
func (t *Txn) spans(key string) bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool { return s.Has(key) })
}

// Keys lists the keys that may be written, each once.
func (t *Txn) Keys() []string {
	var keys []string
	seen := make(map[string]bool)
	for _, list := range [][]Write{t.Then, t.Else} {
		for _, w := range list {
			if !seen[w.Key] {
				seen[w.Key] = true
				keys = append(keys, w.Key)
			}
		}
	}
	return keys
}

// Part says which part of a client's transaction a request executes.
type Part uint8

// The parts. Then and Else are the operations of one branch, whose outcome was found out before.
const (
	Whole   Part = iota
	Outcome      // only finds out whether the conditions hold
	Then         // if the conditions hold
	Else
)

// Request is one request to etcd. It is executed only if all conditions hold. Its reads come last and are linearizable.
type Request struct {
	If     []Cond
	Txn    *Txn // of a client, nested
	Part   Part
	Put    []Put
	Delete []string
	Spans  []Span // of the gateways' own keys, to be deleted
	Get    []string
	List   []string // prefixes
	Leases int64    // the leases of all sessions are listed, as they are at this revision or later; 0: they are not
	Show   []string // what a transaction without Raw reads itself, from a member's own state if it likes
}

// OwnState reports whether etcd would execute a transaction on a member's own state, which may be old: one that has no writes
// and no linearizable reads. The gateway adds a linearizable read then: with an older answer to the guard a write seems to be
// refused or executed, and an older header is below one that was shown.
func OwnState(writes, reads bool, without Rule) bool { return !writes && !reads && without&Newest == 0 }

// KV is a key as etcd has it.
type KV struct {
	Value                string
	Create, Mod, Version int64
	Leased               bool  // it has a lease
	Lease                int64 // that, of a gateway's own key
	TooLarge             bool  // for a cell of the chain
	Packed               bool  // Value is compressed
}

// state is that of an object with this value.
func (kv *KV) state() State {
	if kv.Packed {
		return Packed
	}
	return Value
}

// Result is the result of a [Request].
type Result struct {
	Unknown   bool   // the request may have been executed, or may be yet
	Err       error  // etcd's; unless Unknown, nothing was executed
	Held      bool   // the conditions held
	Succeeded bool   // those of the client's transaction
	TooMany   bool   // with Err: etcd does not take the transaction as a whole, and may take its parts
	Unread    bool   // the reads were left out
	Pin       []Cond // of Outcome: while these conditions hold, and those of a transaction without Raw, it stays so
	Rev       int64
	KVs       map[string]KV
	NoLease   bool    // the lease of a put does not exist; nothing was executed
	Leases    []int64 // of sessions that may last, in any order
	Raw       any     // etcd's answer to Txn.Raw
}

// entry is a key as the result shows it.
func (r *Result) entry(key string) Entry {
	kv, ok := r.KVs[key]
	switch {
	case !ok:
		return Entry{State: Absent, Rev: r.Rev}
	case kv.Leased || kv.TooLarge:
		return Entry{State: NotCacheable, Rev: kv.Mod}
	}
	return Entry{State: kv.state(), Rev: kv.Mod, Create: kv.Create, Version: kv.Version, Value: kv.Value}
}

// forgetLeases shows all keys without leases: what the rule [Leases] prevents.
func (r *Result) forgetLeases() {
	for key, kv := range r.KVs {
		kv.Leased = false
		r.KVs[key] = kv
	}
}

// Effect is something that a [Gateway] wants done.
type Effect interface{ effect() }

type (
	// ChainCall asks the shard of a key, or the shard of the revision object, to do something: [Gateway.Answered].
	ChainCall struct {
		ID uint64
		Op Op
	}
	// EtcdCall asks etcd to do something, under the lease of a session if it has one: [Gateway.Returned].
	EtcdCall struct {
		ID      uint64
		Lease   string
		Request Request
	}
	// WatchDirectory requests changes of the directory from a revision on, instead of an earlier watch. They arrive by
	// [Gateway.DirectoryChanged].
	WatchDirectory struct{ From int64 }
	// EndLease says that a session is over: its lease is not kept alive any more.
	EndLease struct{ Lease string }
	// Reply answers a client.
	Reply struct {
		ID        uint64
		Failure   Failure
		Rev       int64 // header.revision
		Entry     Entry // of the first key, as the transaction left it; without Raw
		Succeeded bool  // of a transaction
		Err       error // etcd's, with a failure
		Raw       any   // of a transaction that the caller executes
	}
	// Revealed allows an answer that the caller holds back until the chain has its revision: [Gateway.Reveal].
	Revealed struct{ ID uint64 }
	// Placed is the result of a [Gateway.Place] or [Gateway.Unplace].
	Placed struct {
		Key  string
		Gone bool // it was to be removed
		Err  error
	}
)

// Failure says why a client has no answer.
type Failure uint8

// The failures.
const (
	None       Failure = iota
	Unknown            // the write may have happened, or may happen yet; once the reply is given it is fenced or will be
	NotApplied         // nothing was done
)

func (ChainCall) effect()      {}
func (EtcdCall) effect()       {}
func (WatchDirectory) effect() {}
func (EndLease) effect()       {}
func (Reply) effect()          {}
func (Placed) effect()         {}
func (Revealed) effect()       {}
