package history

import (
	"fmt"
	"io"
)

// shownViolations bounds the keys that a report explains.
const shownViolations = 2

// shownBefore bounds the explained operations shown before the inexplicable ones.
const shownBefore = 8

// shownAfter bounds the inexplicable operations shown.
const shownAfter = 8

// Write explains the verdict for people.
func (v *Verdict) Write(w io.Writer) error {
	p := &printer{w: w}
	p.line("%d operations on %d keys, %d of unknown outcome", v.Ops, v.Keys, v.Unknown)
	for _, key := range v.Undecided {
		p.line("key %s: not decided within the time limit", key)
	}
	for i := range v.Violations {
		if i == shownViolations {
			p.line("and %d more keys", len(v.Violations)-i)
			break
		}
		v.Violations[i].write(p)
	}
	if v.Linearizable() {
		p.line("linearizable: for every key there is an order of its operations that explains every result")
	}
	return p.err
}

func (v *Violation) write(p *printer) {
	p.line("key %s: NOT linearizable", v.Key)
	done := make([]bool, len(v.Ops))
	for _, i := range v.Order {
		done[i] = true
	}
	from := max(0, len(v.Order)-shownBefore)
	p.line("  %d of %d operations can be put in an order that explains them; its end:", len(v.Order), len(v.Ops))
	for _, i := range v.Order[from:] {
		p.op(' ', v.Ops[i])
	}
	p.line("  but then none of these can come next:")
	shown := 0
	for i, op := range v.Ops {
		if !done[i] && op.Outcome != Unknown && shown < shownAfter {
			p.op('!', op)
			shown++
		}
	}
}

// printer keeps the first error of a sequence of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) op(mark rune, op Op) {
	if op.Outcome == Unknown {
		p.line("   %c [%12d, ...         ]  %v", mark, op.Call, op)
		return
	}
	p.line("   %c [%12d, %12d]  %v", mark, op.Call, op.Return, op)
}
