package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is a kind of violation.
type Kind string

// Kinds, the worse first. One run may show several.
const (
	// LostWrite: after everything has settled, every read shows a value that is older than an
	// acknowledged write.
	LostWrite Kind = "lost-write"
	// AppliedTwice: a lost write, because an older one took effect again when its client repeated
	// it. The network repeated nothing.
	AppliedTwice Kind = "applied-twice"
	// StaleRead: a read shows a value that is older than a write acknowledged before the read began.
	StaleRead Kind = "stale-read"
	// Stuck: with nothing under way and without faults, a node drops a write for want of cells.
	Stuck Kind = "stuck-dirty"
	// Wrap: any violation that 32 bits of SEQ don't show, or a write that no attempt gets through
	// without faults.
	Wrap Kind = "seq-wrap"
	// Disorder: no order of the operations explains the reads, and no kind above applies.
	Disorder Kind = "out-of-order"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{LostWrite, AppliedTwice, StaleRead, Stuck, Wrap, Disorder} }

// Title is the kind in words.
func (k Kind) Title() string {
	switch k {
	case LostWrite:
		return "lost acknowledged write"
	case AppliedTwice:
		return "write applied twice"
	case StaleRead:
		return "stale read after acknowledged write"
	case Stuck:
		return "object stuck dirty until writes are dropped"
	case Wrap:
		return "16-bit SEQ wrap"
	}
	return "reads that no order explains"
}

// checkTime is how long the history of one key may take to check.
const checkTime = 5 * time.Second

// Violation is one thing that is wrong with a run.
type Violation struct {
	Kind Kind
	Why  string        // in one line
	At   time.Duration // when a client could know it

	lines int // of the trace, until then
}

// Verdict lists the violations of a run, at most one of each kind.
type Verdict struct {
	Violations []Violation
	Undecided  int // keys whose history took too long to check
}

// Has reports whether a kind was found, and why.
func (v *Verdict) Has(k Kind) (Violation, bool) {
	i := slices.IndexFunc(v.Violations, func(one Violation) bool { return one.Kind == k })
	if i < 0 {
		return Violation{}, false
	}
	return v.Violations[i], true
}

func (v *Verdict) add(k Kind, when *Record, format string, args ...any) {
	if _, has := v.Has(k); !has {
		v.Violations = append(v.Violations, Violation{k, fmt.Sprintf(format, args...), when.Return, when.lines})
	}
}

// Judge returns the violations of a run. A violation of NetChain with 16 bits that does not occur
// with 32 bits in the same run is one of the wrap.
func (r *Runner) Judge(c Config, result *Result) (*Verdict, error) {
	v := judge(&c, result)
	if c.Protocol != NetChain || len(v.Violations) == 0 || c.Before == 0 {
		return v, nil
	}
	c.Protocol = NetChain32
	wide, err := r.Run(c)
	if err != nil {
		return nil, err
	}
	v.wraps(judge(&c, wide))
	return v, nil
}

// wraps merges the violations that do not occur with 32 bits into one of the wrap.
func (v *Verdict) wraps(wide *Verdict) {
	var kept []Violation
	var wrap *Violation
	for _, one := range v.Violations {
		if _, same := wide.Has(one.Kind); same {
			kept = append(kept, one)
		} else if wrap == nil {
			wrap = &Violation{Wrap, fmt.Sprintf("%s; with 32 bits it does not happen", one.Why), one.At, one.lines}
		}
	}
	if wrap != nil {
		kept = append(kept, *wrap)
	}
	v.Violations = kept
}

func judge(c *Config, result *Result) *Verdict {
	v := new(Verdict)
	keys := make([][]*Record, c.Keys)
	for _, r := range result.Records {
		keys[r.Key] = append(keys[r.Key], r)
	}
	repeats := slices.ContainsFunc(result.Faults, func(f Fault) bool { return f.Kind == Repeat })
	for _, records := range keys {
		h := newKeyHistory(records)
		h.old(v, repeats)
		h.blocked(c, v)
		if len(v.Violations) == 0 {
			h.check(v)
		}
	}
	slices.SortFunc(v.Violations,
		func(a, b Violation) int { return slices.Index(Kinds(), a.Kind) - slices.Index(Kinds(), b.Kind) })
	return v
}

// keyHistory is the history of one key. Every value but the first is written once.
type keyHistory struct {
	records []*Record
	writers map[string]*Record
}

func newKeyHistory(records []*Record) *keyHistory {
	h := &keyHistory{records, make(map[string]*Record)}
	for _, r := range records {
		if r.Write {
			h.writers[r.Value] = r
		}
	}
	return h
}

// olderThan returns an acknowledged write that ended before the read began, and began after the
// value read had taken effect; nil: there is none.
func (h *keyHistory) olderThan(read *Record) *Record {
	since, ok := h.effective(read.Value)
	if !ok {
		return nil
	}
	for _, w := range slices.Backward(h.records) {
		if w.Write && w.Known && w.Value != read.Value && w.Return < read.Call && since < w.Call {
			return w
		}
	}
	return nil
}

// effective is the earliest time at which a client knew that a value had been written.
func (h *keyHistory) effective(value string) (time.Duration, bool) {
	if value == initial {
		return -1, true
	}
	at, ok := time.Duration(0), false
	for _, r := range h.records {
		if r.Known && r.Value == value && (!ok || r.Return < at) {
			at, ok = r.Return, true
		}
	}
	return at, ok
}

// old looks for reads of values that are older than an acknowledged write, and reports whether no
// node has that write at the end.
func (h *keyHistory) old(v *Verdict, repeats bool) {
	var seen, newer *Record
	settled := true
	for _, r := range h.records {
		if r.Last && !r.Write && r.Known {
			if older := h.olderThan(r); older == nil {
				settled = false
			} else {
				seen, newer = r, older
			}
		}
		if r.Last && r.Write {
			break
		}
	}
	if seen != nil && settled {
		h.lost(v, seen, newer, repeats)
		return
	}
	for _, r := range h.records {
		if r.Write || !r.Known {
			continue
		}
		if newer := h.olderThan(r); newer != nil {
			v.add(StaleRead, r, "%v, after %s = %q was acknowledged", r, keyName(r.Key), newer.Value)
		}
	}
}

// lost reports that an acknowledged write is gone: at the end all nodes have an older value.
func (h *keyHistory) lost(v *Verdict, seen, newer *Record, repeats bool) {
	v.add(LostWrite, seen, "%s = %q was acknowledged, and in the end every node answers %q, which is older",
		keyName(newer.Key), newer.Value, seen.Value)
	if h.writers[seen.Value] != nil && !repeats {
		v.add(AppliedTwice, seen,
			"%s = %q took effect, then %q was acknowledged, and then a retry of the first took effect again",
			keyName(newer.Key), seen.Value, newer.Value)
	}
}

// blocked looks whether a write without faults and with nothing else under way is answered: at once
// where cells may be missing, at all where a number may be too low, as the next may be high enough.
func (h *keyHistory) blocked(c *Config, v *Verdict) {
	for _, r := range h.records {
		if !r.Last || !r.Write || r.Attempts == 1 {
			continue
		}
		kind, how := Stuck, fmt.Sprintf("got through at attempt %d only", r.Attempts)
		if !r.Known {
			how = fmt.Sprintf("did not get through in %d attempts", r.Attempts)
		}
		if c.Protocol == NetChain || c.Protocol == NetChain32 {
			if r.Known {
				continue
			}
			kind = Wrap
		}
		v.add(kind, r, "%s: without faults and with nothing else under way, a write %s", keyName(r.Key), how)
	}
}

// check asks porcupine for an order of the operations that explains all reads.
func (h *keyHistory) check(v *Verdict) {
	switch h.until(math.MaxInt64) {
	case porcupine.Unknown:
		v.Undecided++
	case porcupine.Illegal:
		reads := slices.DeleteFunc(slices.Clone(h.records), func(r *Record) bool { return r.Write || !r.Known })
		slices.SortFunc(reads, func(a, b *Record) int { return cmp.Compare(a.Return, b.Return) })
		for _, r := range reads { // the first that cannot be explained
			if h.until(r.Return) == porcupine.Illegal {
				v.add(Disorder, r, "%v: no order of the operations until then explains that", r)
				return
			}
		}
	}
}

// until checks the history as clients knew it at a time.
func (h *keyHistory) until(t time.Duration) porcupine.CheckResult {
	var list []porcupine.Operation
	for _, r := range h.records {
		known, end := r.Known && r.Return <= t, int64(r.Return)
		switch {
		case r.Call > t || !known && !r.Write:
			continue
		case !known:
			end = math.MaxInt64
		}
		list = append(list, porcupine.Operation{ClientId: r.Client, Input: r, Call: int64(r.Call), Return: end})
	}
	return porcupine.CheckOperationsTimeout(register, list, checkTime)
}

// register is a value that is read and written whole.
var register = porcupine.Model{
	Init: func() any { return initial },
	Step: func(state, input, _ any) (bool, any) {
		r := input.(*Record)
		if r.Write {
			return true, r.Value
		}
		return r.Value == state.(string), state
	},
}
