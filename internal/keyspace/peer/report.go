package peer

import (
	"time"

	"google.golang.org/grpc"

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
	// waitingBytes is how many bytes of entries wait for a gateway at most. It reads others from the chain.
	waitingBytes = 256 << 10
)

// update is what one gateway is told next: the newest report, and the entries that were pushed since the one before.
type update struct {
	disk   core.Disk
	report core.Report
	pushed []driver.Pushed
	bytes  int // of their payloads
}

// reporter sends one gateway updates. Those that come while one is being sent become one.
type reporter struct {
	next chan *update // of length 1
}

// Report implements [driver.Peers].
func (p *Peers) Report(to driver.Gateway, from core.Disk, r core.Report) {
	p.tell(to, from, func(u *update) { u.report = r })
}

// Push implements [driver.Peers].
func (p *Peers) Push(to driver.Gateway, from core.Disk, e driver.Pushed) {
	p.tell(to, from, func(u *update) { u.push(e) })
}

// push adds entries, or only says that the log has them.
func (u *update) push(e driver.Pushed) {
	if u.report.Era != e.Era {
		u.report = core.Report{Era: e.Era}
	}
	u.report.Log, u.report.Counted = e.Last(), max(u.report.Counted, e.Counted)
	bytes := 0
	for _, payload := range e.Payloads {
		bytes += len(payload)
	}
	if u.bytes += bytes; u.bytes <= waitingBytes {
		u.pushed = append(u.pushed, e)
	}
}

// tell changes the update that a gateway gets next.
func (p *Peers) tell(to driver.Gateway, from core.Disk, change func(*update)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	s := p.reporters[to]
	if s == nil {
		s = &reporter{next: make(chan *update, 1)}
		p.reporters[to] = s
		p.reporting.Go(func() { p.send(to, s) })
	}
	u := new(update)
	select {
	case u = <-s.next:
	default:
	}
	u.disk = from
	change(u)
	s.next <- u // only this function fills it
}

// send sends updates to a gateway until there are none for long.
func (p *Peers) send(to driver.Gateway, s *reporter) {
	idle := time.NewTimer(forgetAfter)
	defer idle.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-idle.C:
			p.mu.Lock()
			if len(s.next) == 0 {
				delete(p.reporters, to)
				p.mu.Unlock()
				return
			}
			p.mu.Unlock()
		case u := <-s.next:
			p.stream(to, s, u)
			if !retry.Sleep(p.ctx, reportAgain) {
				return
			}
		}
		idle.Reset(forgetAfter)
	}
}

// stream sends updates, from u on, until the stream fails or there are none for long.
func (p *Peers) stream(to driver.Gateway, s *reporter, u *update) {
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
		if u.send(stream) != nil {
			return
		}
		select {
		case u = <-s.next:
		case <-idle.C:
			return
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// send sends an update in messages that wait for no memory of clients' requests. The last one has the report, because
// that one says that the log has the entries.
func (u *update) send(stream grpc.ClientStreamingClient[keyspacev1.ReportRequest, keyspacev1.ReportResponse]) error {
	disk := encodeDisk(u.disk)
	message := &keyspacev1.ReportRequest{Disk: disk}
	for i := range u.pushed {
		rest := u.pushed[i]
		for len(rest.Payloads) > 0 {
			if message.Entries != nil {
				if err := stream.Send(message); err != nil {
					return err
				}
			}
			var some driver.Pushed
			some, rest = split(rest)
			message = &keyspacev1.ReportRequest{Disk: disk, Entries: encodePushed(&some)}
		}
	}
	message.Era, message.Index, message.Log, message.Counted = u.report.Era, u.report.Index, u.report.Log, u.report.Counted
	return stream.Send(message)
}

// split takes as many of the first entries as one message has space for.
func split(p driver.Pushed) (some, rest driver.Pushed) {
	n := 1
	for bytes := len(p.Payloads[0]); n < len(p.Payloads); n++ {
		if bytes += len(p.Payloads[n]); bytes > pieceBytes {
			break
		}
	}
	some, rest = p, p
	some.Payloads, rest.Payloads = p.Payloads[:n], p.Payloads[n:]
	rest.First += uint64(n)
	return some, rest
}

func encodePushed(p *driver.Pushed) *keyspacev1.Entries {
	return &keyspacev1.Entries{Era: p.Era, Term: p.Term, First: p.First, Payloads: p.Payloads}
}

func decodePushed(e *keyspacev1.Entries) driver.Pushed {
	return driver.Pushed{Era: e.GetEra(), Term: e.GetTerm(), First: e.GetFirst(), Payloads: e.GetPayloads()}
}
