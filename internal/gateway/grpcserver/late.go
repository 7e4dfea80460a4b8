package grpcserver

// A unary call has no handler before its request has arrived, and so no deadline. [conn.overdue] ends those that take
// longer than [Options].ReceiveTimeout, so that a client can neither hold memory with beginnings of requests, nor a
// connection that would end if it were idle.

// lateSteps is how often a request is looked at within [Options].ReceiveTimeout.
const lateSteps = 2

// expect has requests looked at that have not arrived. The caller holds mu.
func (c *conn) expect() {
	if c.sweep == nil && !c.closed {
		c.sweep = c.after(c.server.o.ReceiveTimeout/lateSteps, c.overdue)
	}
}

// overdue ends the unary calls whose requests have not arrived in time.
func (c *conn) overdue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep = nil
	for _, call := range c.calls {
		if !call.unary || call.received {
			continue
		}
		if call.age++; call.age <= lateSteps {
			c.expect()
			continue
		}
		call.tooLate()
	}
	c.work.Signal()
}

// tooLate ends a call whose request has not arrived. The caller holds mu.
func (s *Call) tooLate() {
	if s.started {
		s.overdue = true
		s.wake()
		return
	}
	s.finish(errLate)
	s.ended()
}
