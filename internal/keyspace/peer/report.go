package peer

import (
	"time"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

const (
	// reportAgain is the pause before a stream of reports is opened again.
	reportAgain = 100 * time.Millisecond
	// forgetAfter is the time without a report after which a gateway's stream ends.
	forgetAfter = time.Minute
)

// reporter sends one gateway the newest report. Those that come while one is being sent replace each other.
type reporter struct {
	newest chan *keyspacev1.ReportRequest // of length 1
}

// Report implements [driver.Peers].
func (p *Peers) Report(to driver.Gateway, from core.Disk, r core.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	s := p.reporters[to]
	if s == nil {
		s = &reporter{newest: make(chan *keyspacev1.ReportRequest, 1)}
		p.reporters[to] = s
		p.reporting.Go(func() { p.send(to, s) })
	}
	select {
	case <-s.newest:
	default:
	}
	s.newest <- &keyspacev1.ReportRequest{Disk: encodeDisk(from), Era: r.Era, Index: r.Index, Log: r.Log} // only this function fills it
}

// send sends reports to a gateway until there are none for long.
func (p *Peers) send(to driver.Gateway, s *reporter) {
	idle := time.NewTimer(forgetAfter)
	defer idle.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-idle.C:
			p.mu.Lock()
			if len(s.newest) == 0 {
				delete(p.reporters, to)
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
		case r := <-s.newest:
			p.stream(to, s, r)
			if !retry.Sleep(p.ctx, reportAgain) {
				return
			}
		}
		idle.Reset(forgetAfter)
	}
}

// stream sends reports, from r on, until the stream fails or there are none for long.
func (p *Peers) stream(to driver.Gateway, s *reporter, r *keyspacev1.ReportRequest) {
	client, ctx, cancel, err := p.call(p.ctx, &to)
	if err != nil {
		return
	}
	defer cancel()
	stream, err := client.Report(ctx)
	if err != nil {
		return
	}
	ended := make(chan struct{})
	go func() { // a refusal
		defer close(ended)
		_ = stream.RecvMsg(new(keyspacev1.ReportResponse))
	}()
	defer func() { cancel(); <-ended }()
	for idle := time.NewTimer(forgetAfter); ; idle.Reset(forgetAfter) {
		if stream.Send(r) != nil {
			return
		}
		select {
		case r = <-s.newest:
		case <-idle.C:
			return
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
