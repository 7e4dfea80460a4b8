package sim

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/verify/history"
)

// CheckTime is how long the history of one key may take to check.
const CheckTime = 5 * time.Second

// Violation is a broken promise in a run.
type Violation struct {
	At         time.Duration
	Shard, Key int
	Why        string // in one line
	History    *history.Verdict
}

// Judge checks the history of a run; nil: nothing is wrong with it. An invariant counts before the history.
func Judge(c *Config, r *Result) *Violation {
	verdict := history.Check(r.History, CheckTime)
	r.Undecided = len(verdict.Undecided)
	if b := r.Broken; b != nil {
		return &Violation{b.At, b.Shard, b.Key, b.Err.Error(), verdict}
	}
	if len(verdict.Violations) == 0 {
		return nil
	}
	v := verdict.Violations[0]
	key, at := keyOf(v.Key), time.Duration(0)
	explained := make(map[int]bool)
	for _, i := range v.Order {
		explained[i] = true
	}
	for i, op := range v.Ops { // the last that none of the longest orders explains
		if !explained[i] && op.Outcome != history.Unknown && (at == 0 || time.Duration(op.Return) < at) {
			at = time.Duration(op.Return)
		}
	}
	return &Violation{at, c.shardOf(key), key, "not linearizable: the history of " + v.Key, verdict}
}

// keyOf is the number of a key by its name.
func keyOf(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, keyPrefix))
	if err != nil {
		return every
	}
	return n
}

// Write describes the violation, with the last lines of a trace that concern it.
func (v *Violation) Write(out io.Writer, trace []Line, most int) error {
	fmt.Fprintf(out, "at %.3f ms: %s\n", float64(v.At)/float64(time.Millisecond), v.Why)
	if lines := Relevant(trace, v.Shard, v.Key, v.At, most); len(lines) > 0 {
		if err := WriteTrace(out, lines); err != nil {
			return err
		}
	}
	if v.History.Linearizable() {
		return nil
	}
	return v.History.Write(out)
}

// kind returns the kind of a violation; nil is none.
func (v *Violation) kind() string {
	if v == nil {
		return ""
	}
	kind, _, _ := strings.Cut(v.Why, ":")
	return kind
}

// Smaller tries to keep a run wrong in the same way with fewer kinds of faults and fewer operations, in at most so
// many runs.
func Smaller(c Config, planes *Planes, runs int) (Config, error) {
	kind := ""
	wrong := func(c Config) (bool, error) {
		runs--
		r, err := Run(c, planes)
		if err != nil {
			return false, err
		}
		now := Judge(&c, r).kind()
		kind = cmp.Or(kind, now)
		return now == kind, nil
	}
	if _, err := wrong(c); err != nil || kind == "" {
		return c, err
	}
	try := func(change func(*Config)) error {
		next := c
		if change(&next); next == c || runs <= 0 {
			return nil
		}
		fails, err := wrong(next)
		if fails {
			c = next
		}
		return err
	}
	for before := (Config{}); before != c && runs > 0; {
		before = c
		for f := range faults {
			if err := try(func(c *Config) { c.Quiet |= 1 << f }); err != nil {
				return c, err
			}
		}
		for _, change := range []func(*Config){
			func(c *Config) { c.Ops = max(1, c.Ops/2) },
			func(c *Config) { c.Ops = max(1, c.Ops-c.Ops/8-1) },
			func(c *Config) { c.Clients = max(1, c.Clients-1) },
			func(c *Config) { c.Keys = max(1, c.Keys-1) },
			func(c *Config) { c.Shards = max(1, c.Shards/2) },
		} {
			if err := try(change); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}
