package bench

import (
	"fmt"
	"strings"
)

// Counters holds the kernel's counters of one load.
type Counters struct {
	Sent     uint64
	OK       uint64 // correct answers, checked to the last byte
	Wrong    uint64 // answers with status OK but wrong content
	NotFound uint64
	Busy     uint64
	Other    uint64 // any other status
	Why      why    // reasons of the wrong answers
	HopsMax  int    // most links that a request and its answer crossed

	OKWrites uint64 // writes among OK
}

// Answers returns the number of requests with any answer.
func (t Counters) Answers() uint64 { return t.OK + t.Wrong + t.NotFound + t.Busy + t.Other }

// Lost returns the number of requests without an answer.
func (t Counters) Lost() uint64 {
	if t.Answers() > t.Sent {
		return 0
	}
	return t.Sent - t.Answers()
}

// plus returns the sum of both counters.
func (t Counters) plus(other Counters) Counters {
	t.Sent += other.Sent
	t.OK += other.OK
	t.Wrong += other.Wrong
	t.NotFound += other.NotFound
	t.Busy += other.Busy
	t.Other += other.Other
	t.OKWrites += other.OKWrites
	t.Why |= other.Why
	t.HopsMax = max(t.HopsMax, other.HopsMax)
	return t
}

// String lists the counts that are not zero.
func (t Counters) String() string {
	text := fmt.Sprintf("%d sent, %d answered rightly, %d lost", t.Sent, t.OK, t.Lost())
	if t.Wrong > 0 {
		text += fmt.Sprintf(", %d answered wrongly (%v)", t.Wrong, t.Why)
	}
	for _, c := range []struct {
		count uint64
		name  string
	}{{t.NotFound, "not found"}, {t.Busy, "busy"}, {t.Other, "refused"}} {
		if c.count > 0 {
			text += fmt.Sprintf(", %d %s", c.count, c.name)
		}
	}
	return text
}

// minus returns the increase since an earlier reading.
func (t Counters) minus(earlier Counters) Counters {
	t.Sent -= earlier.Sent
	t.OK -= earlier.OK
	t.Wrong -= earlier.Wrong
	t.NotFound -= earlier.NotFound
	t.Busy -= earlier.Busy
	t.Other -= earlier.Other
	t.OKWrites -= earlier.OKWrites
	return t
}

// why is a set of reasons why an answer is wrong.
type why uint64

// reasons names the bits that the kernel program sets.
var reasons = []string{"size", "header", "request", "version", "value", "checksum"}

// String lists the reasons.
func (w why) String() string {
	var names []string
	for i, name := range reasons {
		if w&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// kernelCounters is struct counters of the kernel program.
type kernelCounters struct {
	Sent, Position, Writes           uint64
	_                                [5]uint64
	OK, Wrong, NotFound, Busy, Other uint64
	WrongWhy, Differences, HopsMax   uint64
	OKWrites                         uint64
	_                                [15]uint64
}

// counters sums the counts of all CPUs.
func (l *load) counters() (Counters, error) {
	var cpus [maxCPUs]kernelCounters
	if err := l.collection.Variables["all_counters"].Get(&cpus); err != nil {
		return Counters{}, fmt.Errorf("read the counters: %w", err)
	}
	var t Counters
	for _, c := range cpus {
		t.Sent += c.Sent
		t.OK += c.OK
		t.Wrong += c.Wrong
		t.NotFound += c.NotFound
		t.Busy += c.Busy
		t.Other += c.Other
		t.Why |= why(c.WrongWhy)
		t.HopsMax = max(t.HopsMax, int(c.HopsMax)+1)
		t.OKWrites += c.OKWrites
	}
	return t, nil
}
