package sim

import (
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
	// LostWrite: after everything has settled, every read shows a value that is older than an acknowledged write.
	LostWrite Kind = "lost acknowledged write"
	// AppliedTwice: a lost write, because an older one that had been answered took effect again.
	AppliedTwice Kind = "write applied twice"
	// StaleRead: a read shows a value that is older than a write acknowledged before the read began.
	StaleRead Kind = "stale read after acknowledged write"
	// Stuck: with nothing under way and without faults, a node drops a write for want of cells.
	Stuck Kind = "object stuck dirty until writes are dropped"
	// Wrap: any violation that 32 bits of SEQ don't show, or a write that no attempt gets through without faults.
	Wrap Kind = "16-bit SEQ wrap"
	// Disorder: no order of the operations explains what was read, in another way than those above.
	Disorder Kind = "reads in no order"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{LostWrite, AppliedTwice, StaleRead, Stuck, Wrap, Disorder} }

// checkTime is how long the history of one key may take to check.
const checkTime = 5 * time.Second

// Violation is one thing that is wrong with a run.
type Violation struct {
	Kind Kind
	Why  string // in one line
}

// Verdict is what is wrong with a run: at most one of each kind.
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

func (v *Verdict) add(k Kind, format string, args ...any) {
	if _, has := v.Has(k); !has {
		v.Violations = append(v.Violations, Violation{k, fmt.Sprintf(format, args...)})
	}
}

// Judge says what is wrong with a run. A violation of NetChain with 16 bits that 32 bits don't show in the same run is one of
// the wrap.
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

// wraps makes one violation of the wrap of those that 32 bits don't show.
func (v *Verdict) wraps(wide *Verdict) {
	var kept []Violation
	var wrap *Violation
	for _, one := range v.Violations {
		if _, same := wide.Has(one.Kind); same {
			kept = append(kept, one)
		} else if wrap == nil {
			wrap = &Violation{Wrap, fmt.Sprintf("%s; with 32 bits it does not happen", one.Why)}
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
	for _, records := range keys {
		h := newKeyHistory(records)
		h.old(v)
		h.blocked(c, v)
		if len(v.Violations) == 0 {
			h.check(v)
		}
	}
	slices.SortFunc(v.Violations, func(a, b Violation) int { return slices.Index(Kinds(), a.Kind) - slices.Index(Kinds(), b.Kind) })
	return v
}

// keyHistory is what happened to one key. Every value but the first is written once.
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

// olderThan is an acknowledged write that ended before the read began and began after the write of what was read was
// acknowledged; nil: there is none.
func (h *keyHistory) olderThan(read *Record) *Record {
	writer := h.writers[read.Value]
	if writer == nil && read.Value != initial || writer != nil && !writer.Known {
		return nil
	}
	for _, w := range slices.Backward(h.records) {
		if w.Write && w.Known && w.Return < read.Call && (writer == nil || writer.Return < w.Call) {
			return w
		}
	}
	return nil
}

// old looks for reads of values that are older than an acknowledged write, and whether that write is seen by nobody any more.
func (h *keyHistory) old(v *Verdict) {
	var lost *Record
	finds, sees := 0, false
	for _, r := range h.records {
		if r.Last && r.Write {
			break
		}
		if r.Write || !r.Known {
			continue
		}
		newer := h.olderThan(r)
		switch {
		case newer != nil && r.Last:
			finds, lost = finds+1, newer
		case newer == nil && r.Last:
			sees = true
		}
	}
	if finds > 0 && !sees {
		h.lost(v, lost)
		return
	}
	for _, r := range h.records {
		if newer := h.olderThan(r); !r.Write && r.Known && newer != nil {
			v.add(StaleRead, "%v, after %s = %q was acknowledged", r, keyName(r.Key), newer.Value)
		}
	}
}

// lost tells a write that is gone, and whether an older one that took effect again is why.
func (h *keyHistory) lost(v *Verdict, lost *Record) {
	var seen *Record
	for _, r := range h.records {
		if r.Last && !r.Write && r.Known {
			seen = r
			break
		}
	}
	v.add(LostWrite, "%s = %q was acknowledged, then no node has it any more: they have %q, which is older", keyName(lost.Key), lost.Value, seen.Value)
	if again := h.writers[seen.Value]; again != nil {
		v.add(AppliedTwice, "%s = %q was acknowledged, then %q, and then the first took effect again", keyName(lost.Key), again.Value, lost.Value)
	}
}

// blocked looks whether a write without faults and with nothing else under way is answered at once.
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
			kind = Wrap
		}
		v.add(kind, "%s: without faults and with nothing else under way, a write %s", keyName(r.Key), how)
	}
}

// check asks porcupine for an order of the operations that explains all reads.
func (h *keyHistory) check(v *Verdict) {
	var list []porcupine.Operation
	for _, r := range h.records {
		end := int64(r.Return)
		switch {
		case !r.Known && !r.Write:
			continue
		case !r.Known:
			end = math.MaxInt64
		}
		list = append(list, porcupine.Operation{ClientId: r.Client, Input: r, Call: int64(r.Call), Return: end})
	}
	switch porcupine.CheckOperationsTimeout(register, list, checkTime) {
	case porcupine.Unknown:
		v.Undecided++
	case porcupine.Illegal:
		v.add(Disorder, "%s: no order of the operations explains what was read", keyName(h.records[0].Key))
	}
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
