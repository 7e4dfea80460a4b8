package grpcserver

// A handler needs more stack than a new goroutine has, and to grow it takes longer than many a call. So the goroutine
// of a call that has ended takes the next one.

// run runs the handler of a call.
func (s *Server) run(call *Call) {
	select {
	case s.idle <- call:
	default:
		go s.work(call)
	}
}

// work runs handlers one after the other. It ends when enough others wait for a call.
func (s *Server) work(call *Call) {
	for {
		call.conn.contain("a handler", call.handle)
		if s.resting.Add(1) > maxResting {
			s.resting.Add(-1)
			return
		}
		select {
		case call = <-s.idle:
		case <-s.ended:
			s.resting.Add(-1)
			return
		}
		s.resting.Add(-1)
	}
}
