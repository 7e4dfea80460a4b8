package admin

import (
	"fmt"
	"strings"
	"time"
)

// Progress follows repairs and moves over several snapshots: how much there was to do when they began, and how fast it
// goes.
type Progress struct {
	total     uint32 // most that was to do since there was nothing
	began     time.Time
	last      time.Time
	copied    uint64
	bytesPerS float64
}

// See takes the newest snapshot.
func (p *Progress) See(now time.Time, s *Snapshot) { p.see(now, s.Shards.remaining(), s.CopiedBytes) }

func (p *Progress) see(now time.Time, remaining uint32, copied uint64) {
	if remaining == 0 {
		*p = Progress{last: now, copied: copied}
		return
	}
	if p.total == 0 {
		p.began = now
	}
	if copied < p.copied { // another leader, which counts anew
		p.last = time.Time{}
	}
	p.total = max(p.total, remaining)
	if !p.last.IsZero() && now.After(p.last) {
		seconds := now.Sub(p.last).Seconds()
		weight := min(1, seconds/5)
		p.bytesPerS += weight * (float64(copied-p.copied)/seconds - p.bytesPerS)
	}
	p.last, p.copied = now, copied
}

// Work is how far repairs and moves have come.
type Work struct {
	Done      uint32  `json:"done"` // shards
	Total     uint32  `json:"total"`
	LeftS     float64 `json:"left_s"` // estimated; 0: not known
	BytesPerS float64 `json:"bytes_per_s"`
}

// Work returns how far the work has come; nil if there is nothing to do.
func (p *Progress) Work(now time.Time, s *Snapshot) *Work { return p.work(now, s.Shards.remaining()) }

func (p *Progress) work(now time.Time, remaining uint32) *Work {
	if remaining == 0 {
		return nil
	}
	w := &Work{Total: max(p.total, remaining), BytesPerS: p.bytesPerS}
	if w.Done = w.Total - remaining; w.Done > 0 {
		w.LeftS = now.Sub(p.began).Seconds() * float64(remaining) / float64(w.Done)
	}
	return w
}

// Line returns a progress bar with an estimate of the time left; empty if there is nothing to do.
func (p *Progress) Line(now time.Time, s *Snapshot) string { return p.line(now, s.Shards.remaining()) }

func (p *Progress) line(now time.Time, remaining uint32) string {
	w := p.work(now, remaining)
	if w == nil {
		return ""
	}
	line := CountShards(uint64(remaining)) + " to go"
	if w.Done > 0 {
		part := float64(w.Done) / float64(w.Total)
		line = fmt.Sprintf("%s %3.0f %%  %s of %s shards, about %s left", bar(part), 100*part, Grouped(uint64(w.Done)),
			Grouped(uint64(w.Total)), clock(time.Duration(w.LeftS*float64(time.Second))))
	}
	if w.BytesPerS >= 1 {
		line += ", " + Bytes(uint64(w.BytesPerS)) + "/s"
	}
	return line
}

// barColumns is how wide a bar is.
const barColumns = 24

func bar(part float64) string {
	full := int(part * barColumns)
	return strings.Repeat("█", full) + strings.Repeat("░", barColumns-full)
}

// clock writes a time as minutes and seconds, or hours, minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
