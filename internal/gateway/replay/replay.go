// Package replay runs the placement of cached keys on recorded traffic of etcd, and compares it with the best fixed set of keys.
package replay

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// Event is one request of a trace that reads or writes a single key.
type Event struct {
	At      float64 // seconds since the trace's begin
	Key     string
	Write   bool
	Deleted bool
	Leased  bool // a write that attaches the key to a lease
	Bytes   int  // of the value; a read or deletion of an absent key has none
}

// Trace is recorded traffic.
type Trace struct {
	Events []Event
	Other  int // reads of several keys, which no cached object answers
}

// Read reads a trace: CSV with a header line, perhaps compressed. Lines with # are remarks.
func Read(file string) (*Trace, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(bufio.NewReader(f)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	t, err := parse(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// columns of a trace that are read.
var columns = []string{"t_s", "method", "op", "key", "range", "lease", "succ", "vlen"}

func parse(in io.Reader) (*Trace, error) {
	r := csv.NewReader(in)
	r.Comment = '#'
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("no header line: %w", err)
	}
	at := make(map[string]int)
	for _, name := range columns {
		if at[name] = slices.Index(header, name); at[name] < 0 {
			return nil, fmt.Errorf("there is no column %s", name)
		}
	}
	var t Trace
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := t.add(func(column string) string { return row[at[column]] }); err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	slices.SortStableFunc(t.Events, func(a, b Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return &t, nil
}

func (t *Trace) add(column func(string) string) error {
	method, single := column("method"), column("range") == "single"
	if method != "KV/Range" && method != "KV/Txn" && method != "KV/Put" && method != "KV/DeleteRange" {
		return nil
	}
	if !single {
		if method == "KV/Range" {
			t.Other++
		}
		return nil
	}
	seconds, err := strconv.ParseFloat(column("t_s"), 64)
	if err != nil {
		return fmt.Errorf("t_s: %w", err)
	}
	bytes, err := strconv.Atoi(column("vlen"))
	if err != nil {
		return fmt.Errorf("vlen: %w", err)
	}
	e := Event{At: seconds, Key: column("key"), Bytes: bytes}
	if method != "KV/Range" {
		if column("succ") == "false" {
			return nil // a failed compare writes nothing, and etcd answers its reads
		}
		e.Write, e.Leased = true, column("lease") != ""
		e.Deleted = method == "KV/DeleteRange" || strings.HasSuffix(column("op"), "delete")
	}
	t.Events = append(t.Events, e)
	return nil
}

// Options say how a trace is replayed.
type Options struct {
	Placement placement.Options
	Keys      int     // that the monitor knows
	HalfLife  float64 // of its counts, in seconds
	Every     float64 // seconds between two decisions
	Delay     float64 // seconds from a decision until all gateways apply it
	Explain   string  // a key
}

// Result is the result of a replay.
type Result struct {
	Reads      int     // of single keys
	HitShare   float64 // of these, answered by placed keys
	BestFixed  float64 // share of the best fixed set of the same size, chosen afterwards
	AllShare   float64 // hits among all reads, of several keys too
	Adapt      float64 // longest time until a new hot set was in place: see shifts
	Placements int
	Removals   int
	Writes     int // of clients that change a single key
	OwnWrites  int // of the directory in etcd: each round of placements is one, and each round of removals
	MostBytes  int
	Why        string // Options.Explain, at the end
}

// state of a replay.
type state struct {
	o       *Options
	monitor *placement.Monitor
	placed  placement.Placed
	ready   map[string]float64 // when a placed key begins to be hit
	leased  map[string]bool
	sizes   map[string]int
	budget  placement.Budget
	r       Result
}

// Run replays a trace.
func Run(t *Trace, o *Options) *Result {
	s := &state{
		o: o, monitor: placement.NewMonitor(o.Keys, o.HalfLife), placed: make(placement.Placed),
		ready:  make(map[string]float64),
		leased: make(map[string]bool), sizes: make(map[string]int),
	}
	watch := newShifts(o, t)
	hits, next, now := 0, o.Every, 0.0
	for _, e := range t.Events {
		for ; next <= e.At; next += o.Every {
			s.decide(next)
			watch.see(s.ready)
		}
		now = e.At
		if s.use(&e) {
			hits++
		}
	}
	if s.r.Reads > 0 {
		s.r.HitShare = float64(hits) / float64(s.r.Reads)
		s.r.AllShare = float64(hits) / float64(s.r.Reads+t.Other)
	}
	s.r.BestFixed, s.r.Adapt = bestFixed(t, o), watch.longest()
	if o.Explain != "" {
		s.r.Why = placement.Explain(&o.Placement, s.placed, s.monitor.Usages(now), o.Explain, now).String()
	}
	return &s.r
}

// use lets a request happen and reports whether it is a hit.
func (s *state) use(e *Event) bool {
	if e.Write {
		s.leased[e.Key] = e.Leased && !e.Deleted
		s.r.Writes++
		s.budget.Wrote(1)
		s.monitor.Write(e.Key, e.Bytes, s.leased[e.Key], e.At)
		return false
	}
	s.r.Reads++
	s.monitor.Read(e.Key, e.Bytes, e.At)
	if ready, placed := s.ready[e.Key]; placed && e.At >= ready && !s.leased[e.Key] {
		return true
	}
	s.budget.Read(1)
	return false
}

func (s *state) decide(now float64) {
	usages := s.monitor.Usages(now)
	d := placement.Choose(&s.o.Placement, s.placed, usages, now)
	s.budget.Afford(&s.o.Placement, &d, now)
	s.apply(&d, now)
	bytes := 0
	for _, u := range usages {
		if _, is := s.placed[u.Key]; is {
			bytes += s.o.Placement.Size(u.Bytes)
		}
	}
	s.r.MostBytes = max(s.r.MostBytes, bytes)
}

// apply changes the places as decided.
func (s *state) apply(d *placement.Decision, now float64) {
	for _, key := range d.Remove {
		delete(s.placed, key)
		delete(s.ready, key)
	}
	for _, key := range d.Place {
		s.placed[key], s.ready[key] = now, now+s.o.Delay
	}
	s.r.OwnWrites += d.Writes()
	s.r.Placements += len(d.Place)
	s.r.Removals += len(d.Remove)
}

// bestFixed is the share of reads that the best fixed set of keys answers: no set does better, because the last key counts as far as it
// fits.
func bestFixed(t *Trace, o *Options) float64 {
	reads, sizes := weights(t, o)
	total, left, hits := 0, float64(o.Placement.Capacity), 0.0
	for _, e := range t.Events {
		if !e.Write {
			total++
		}
	}
	for _, key := range byDensity(reads, sizes) {
		part := min(1, left/float64(sizes[key]))
		hits += part * float64(reads[key])
		left -= part * float64(sizes[key])
	}
	if total == 0 {
		return 0
	}
	return hits / float64(total)
}

// weights are the reads that a key that is always placed would answer, and the largest size of its object.
func weights(t *Trace, o *Options) (reads, sizes map[string]int) {
	reads, sizes = make(map[string]int), make(map[string]int)
	leased := make(map[string]bool)
	for _, e := range t.Events {
		if sizes[e.Key] = max(sizes[e.Key], o.Placement.Size(e.Bytes)); e.Write {
			leased[e.Key] = e.Leased && !e.Deleted
		} else if !leased[e.Key] {
			reads[e.Key]++
		}
	}
	for key := range reads {
		if sizes[key] > o.Placement.Size(o.Placement.Largest) {
			delete(reads, key)
		}
	}
	return reads, sizes
}

// byDensity lists keys, those with most reads for each byte first.
func byDensity(reads, sizes map[string]int) []string {
	keys := slices.Sorted(maps.Keys(reads))
	slices.SortStableFunc(keys, func(a, b string) int { return reads[b]*sizes[a] - reads[a]*sizes[b] })
	return keys
}
