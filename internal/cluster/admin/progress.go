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

// barColumns is how wide a bar is.
const barColumns = 24

// Line returns a progress bar with an estimate of the time left; empty if there is nothing to do.
func (p *Progress) Line(now time.Time, s *Snapshot) string { return p.line(now, s.Shards.remaining()) }

func (p *Progress) line(now time.Time, remaining uint32) string {
	if remaining == 0 {
		return ""
	}
	line := Grouped(uint64(remaining)) + " shards to go"
	if p.total > remaining {
		done := p.total - remaining
		part := float64(done) / float64(p.total)
		left := time.Duration(float64(now.Sub(p.began)) * float64(remaining) / float64(done))
		line = fmt.Sprintf("%s %3.0f %%  %s of %s shards, about %s left", bar(part), 100*part, Grouped(uint64(done)),
			Grouped(uint64(p.total)), clock(left))
	}
	if p.bytesPerS >= 1 {
		line += ", " + Bytes(uint64(p.bytesPerS)) + "/s"
	}
	return line
}

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
