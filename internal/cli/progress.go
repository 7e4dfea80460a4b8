package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/snapshot"
)

// Progress shows the progress of long work in one line of a terminal. It shows nothing if the output is no terminal.
type Progress struct {
	out io.Writer

	mu    sync.Mutex
	shown time.Time
	begun time.Time
}

// progressEvery is the minimum time between two updates.
const progressEvery = 100 * time.Millisecond

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{begun: time.Now()}
	if file, ok := w.(*os.File); ok && IsTerminal(file) {
		p.out = w
	}
	return p
}

func (p *Progress) Show(s snapshot.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	share := ""
	if s.Total > 0 {
		share = fmt.Sprintf("%3d %%, ", 100*s.Done/s.Total)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s: %s%s objects, %v", s.Stage, share, Grouped(s.Objects),
		time.Since(p.begun).Round(100*time.Millisecond))
}

// End clears the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
